"""The rows of a ledger after a removal: none about the targets, and no sum with them in it.

Rows about single clients are deleted. A round keeps what follows from the rows of those who remain:
its sums minus those rows would be the target's own figures. For the same reason
times of day go, as they say how long each round took, and so does the count of messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.store.ledger import Ledger, Statement

CLIENT_TABLES = (
    *("clients", "replies", "refusals", "evaluations", "preservation", "recalibrations"),
    *("nodes", "audit_clients", "admissions"),
)
"""Every table with rows about single clients."""

_TIMES = (("rounds", "finished_at"), ("refusals", "at"))
_TIMES_OF_ACTIONS = ("started_at", "finished_at")

_ROUNDS_OF_THE_REMAINING = (
    "UPDATE rounds SET (replies, samples, loss, cpu_seconds) = ("
    "SELECT COUNT(*), IFNULL(SUM(samples), 0), IFNULL(SUM(loss * samples) / SUM(samples), 0), "
    "IFNULL(SUM(cpu_seconds), 0) FROM replies WHERE replies.round = rounds.round)"
)
_SECONDS_BY_PACE = "UPDATE rounds SET seconds = ? * cpu_seconds, record_seconds = ? * cpu_seconds"


def erase_rows(ledger: Ledger, targets: Sequence[str]) -> list[Statement]:
    """Statements that leave no row of these clients behind, nor a sum with them in it."""
    own = [
        (f"DELETE FROM {table} WHERE client = ?", (target,))
        for table in CLIENT_TABLES
        for target in targets
    ]
    days = [f"UPDATE {table} SET {time} = substr({time}, 1, 10)" for table, time in _all_times()]
    rounds: list[Statement] = [(_ROUNDS_OF_THE_REMAINING, ()), (_SECONDS_BY_PACE, _paces(ledger))]
    return [*own, *rounds, *((sql, ()) for sql in [*days, "DELETE FROM traffic"])]


def _all_times() -> list[tuple[str, str]]:
    return [*_TIMES, *(("actions", time) for time in _TIMES_OF_ACTIONS)]


def _paces(ledger: Ledger) -> tuple[float, float]:
    """Wall and recording seconds for a CPU second at clients, to one digit: over all rounds."""
    sql = "SELECT SUM(seconds), SUM(record_seconds), SUM(cpu_seconds) FROM rounds"
    (row,) = ledger.rows(sql)
    seconds, recording, cpu = (value or 0.0 for value in row.values())
    return (_one_digit(seconds / cpu), _one_digit(recording / cpu)) if cpu else (0.0, 0.0)


def _one_digit(value: float) -> float:
    """
    >>> _one_digit(0.0467), _one_digit(13.2)
    (0.05, 10.0)
    """
    return float(f"{value:.0e}")


def count_rows(ledger: Ledger, targets: Sequence[str]) -> int:
    """How many rows are about these clients."""
    return sum(
        ledger.value(f"SELECT COUNT(*) FROM {table} WHERE client = ?", target)
        for table in CLIENT_TABLES
        for target in targets
    )
