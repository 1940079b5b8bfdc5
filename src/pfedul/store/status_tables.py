"""What `pfedul status` reads from the ledger."""

from __future__ import annotations

from typing import Any

from pfedul.store.ledger import Ledger
from pfedul.store.requests import DONE, PRESERVED

Rows = list[dict[str, Any]]


def client_rows(ledger: Ledger) -> Rows:
    """Every client with its samples and the round it joined in."""
    columns = "client, status, train_samples, test_samples, joined_round"
    return ledger.rows(f"SELECT {columns} FROM clients ORDER BY client")


def loss_rows(ledger: Ledger) -> Rows:
    """The training loss of each round, of the clients that are still in the run."""
    return ledger.rows("SELECT round, loss FROM rounds WHERE replies > 0 ORDER BY round")


def accuracy_rows(ledger: Ledger) -> Rows:
    """Mean and lowest accuracy of each evaluated round."""
    return ledger.rows(
        "SELECT round, AVG(accuracy) AS mean, MIN(accuracy) AS worst, COUNT(*) AS clients "
        "FROM evaluations GROUP BY round ORDER BY round"
    )


def current_accuracy(ledger: Ledger) -> dict[str, Any] | None:
    """Accuracy of the current tensors, from an evaluation or the last removal; None if unknown."""
    last = ledger.value("SELECT MAX(number) FROM commits")
    for source, meta_key, sql in _ACCURACY_SOURCES:
        if last is not None and ledger.meta(meta_key) == str(last):
            (figures,) = ledger.rows(sql)
            return {**figures, "source": source} if figures["clients"] else None
    return None


_ACCURACY_SOURCES = (
    (
        "evaluation",
        "evaluated_commit",
        "SELECT AVG(accuracy) AS mean, MIN(accuracy) AS worst, COUNT(*) AS clients "
        "FROM evaluations WHERE round = (SELECT MAX(round) FROM evaluations)",
    ),
    (
        "removal",
        PRESERVED,
        "SELECT AVG(accuracy_after) AS mean, MIN(accuracy_after) AS worst, COUNT(*) AS clients "
        "FROM preservation WHERE request = "
        f"(SELECT MAX(request) FROM requests WHERE status = '{DONE}')",
    ),
)


def time_spent(ledger: Ledger) -> dict[str, float | None]:
    """Seconds spent in rounds, in recording and in committing."""
    (rounds,) = ledger.rows(
        "SELECT SUM(seconds) AS seconds, SUM(cpu_seconds) AS cpu, SUM(record_seconds) AS record "
        "FROM rounds"
    )
    seconds, cpu, record = (value or 0.0 for value in rounds.values())
    commits = ledger.value("SELECT SUM(seconds) FROM commits") or 0.0
    return {
        "round_seconds": seconds,
        "client_cpu_seconds": cpu,
        "commit_seconds": commits,
        "commit_share": commits / (seconds + commits) if seconds else None,
        "record_seconds": record,
        "record_share": record / seconds if seconds else None,
    }


def refusals(ledger: Ledger) -> Rows:
    """Refused replies with the reasons, and those whose update was shortened."""
    return ledger.rows("SELECT * FROM refusals ORDER BY round, client")


def node_rows(ledger: Ledger) -> dict[str, Rows]:
    """Nodes that clients run on, nodes that were turned away, and what was asked of the server."""
    return {
        "nodes": ledger.rows("SELECT client, node_key, bound_at FROM nodes ORDER BY client"),
        "strangers": ledger.rows("SELECT * FROM strangers ORDER BY at"),
        "actions": ledger.rows("SELECT * FROM actions ORDER BY id"),
    }


def traffic_rows(ledger: Ledger) -> Rows:
    """Messages and bytes in both directions, summed by action."""
    return ledger.rows(
        "SELECT action, COUNT(*) AS tasks, SUM(clients) AS clients, "
        "SUM(messages_out) AS messages_out, SUM(bytes_out) AS bytes_out, "
        "SUM(messages_in) AS messages_in, SUM(bytes_in) AS bytes_in "
        "FROM traffic GROUP BY action ORDER BY action"
    )
