"""Rows of the ledger: what is written about clients, rounds and evaluations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from pfedul.base.clock import now
from pfedul.data.checks import check_ids
from pfedul.data.samples import ClientData, fingerprint
from pfedul.evaluation import Evaluation
from pfedul.protocol import Refusal, RoundResult, Shortened
from pfedul.store.chain import ADMISSION, Attestation
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.version import __version__


def run_rows() -> list[Statement]:
    """Facts about a run as a whole when it is created."""
    return [
        insert("meta", key="created_at", value=now()),
        insert("meta", key="pfedul", value=__version__),
    ]


def no_fact(key: str) -> Statement:
    """Erase a fact about the run."""
    return "DELETE FROM meta WHERE key = ?", (key,)


def client_row(member: Member, joined_round: int) -> Statement:
    """A client that joins."""
    return insert("clients", **asdict(member), joined_round=joined_round)


def admission_rows(ledger: Ledger, client: str, joined_round: int, again: bool) -> list[Statement]:
    """That a client was admitted after training began, and the chain's entry about it."""
    number = 1 + (ledger.value("SELECT MAX(admission) FROM admissions") or 0)
    facts = {"joined_round": joined_round, "again": again}
    row = insert("admissions", admission=number, client=client, at=now(), **facts)
    return [row, Attestation(ADMISSION, "admissions", (number,), facts)]


def round_rows(result: RoundResult, sha256: str, cost: Mapping[str, float]) -> list[Statement]:
    """A whole round with its replies and refusals."""
    accepted = result.accepted
    rows = [
        insert(
            "rounds",
            round=result.number,
            finished_at=now(),
            replies=len(accepted),
            samples=sum(reply.samples for reply in accepted),
            loss=result.loss,
            cpu_seconds=sum(reply.cpu_seconds for reply in accepted),
            shared_sha256=sha256,
            **cost,
        )
    ]
    rows += [insert("replies", round=result.number, **asdict(reply)) for reply in accepted]
    shortened = [Refusal(item.client, _how_far(item)) for item in result.shortened]
    return rows + refusal_rows(result.number, [*shortened, *result.refused])


SHORTENED = "shortened"
"""The first word of the reason of a reply that was not refused, but used in part."""


def _how_far(item: Shortened) -> str:
    return f"{SHORTENED} to {item.allowed:.4g}: its update has the length {item.update_norm:.4g}"


def was_shortened(ledger: Ledger, since: int) -> bool:
    """Whether any update of a client that is still there was shortened after round `since`."""
    sql = "SELECT COUNT(*) FROM refusals WHERE round > ? AND reason LIKE ?"
    return bool(ledger.value(sql, since, f"{SHORTENED} to %"))


def refusal_rows(number: int, refused: Iterable[Refusal]) -> list[Statement]:
    """Replies that were refused or shortened, each with the reason."""
    return [
        insert("refusals", round=number, client=item.client, reason=item.reason, at=now())
        for item in refused
    ]


def evaluation_rows(evaluation: Evaluation, commit: int) -> list[Statement]:
    """Each client's figures after a round, replacing older ones, and the commit they belong to."""
    older = "DELETE FROM evaluations WHERE round = ?", (evaluation.round,)
    return [older, insert("meta", key="evaluated_commit", value=str(commit))] + [
        insert("evaluations", round=evaluation.round, client=client, **asdict(score))
        for client, score in evaluation.clients.items()
    ]


@dataclass(frozen=True)
class Member:
    """A client as the ledger knows it; its data may be on another machine."""

    client: str
    train_samples: int
    test_samples: int
    data_sha256: str


def member_of(client: str, data: ClientData) -> Member:
    """The ledger's view of a client whose data are on this machine."""
    return Member(client, len(data.train), len(data.test), fingerprint(data))


def read_members(ledger: Ledger) -> dict[str, Member]:
    """All active clients."""
    columns = "client, train_samples, test_samples, data_sha256"
    rows = ledger.rows(f"SELECT {columns} FROM clients WHERE status = 'active' ORDER BY client")
    check_ids(row["client"] for row in rows)
    return {row["client"]: Member(**row) for row in rows}


def last_round(ledger: Ledger) -> int:
    """The number of the last round; 0 before the first."""
    number: int | None = ledger.value("SELECT MAX(round) FROM rounds")
    return number or 0


LENGTHS_SINCE = "lengths_since"
"""The round of the last removal, since which lengths of updates are compared."""

WINDOW = 5
"""Rounds whose updates the next ones are compared with."""


def recent_lengths(ledger: Ledger) -> dict[int, list[float]]:
    """Lengths of the updates of the last rounds, by round."""
    since = int(ledger.meta(LENGTHS_SINCE) or 0)
    rounds: dict[int, list[float]] = {}
    sql = "SELECT round, update_norm FROM replies WHERE round > ? ORDER BY round, client"
    for row in ledger.rows(sql, max(since, last_round(ledger) - WINDOW)):
        rounds.setdefault(row["round"], []).append(row["update_norm"])
    return rounds


def latest(lengths: Mapping[int, list[float]]) -> dict[int, list[float]]:
    """The last rounds of these."""
    return {number: lengths[number] for number in sorted(lengths)[-WINDOW:]}


def clients_seen(ledger: Ledger) -> set[str]:
    """Clients that took part in any round."""
    return set(ledger.column("SELECT DISTINCT client FROM replies"))


def participants_of(ledger: Ledger, number: int) -> dict[str, int]:
    """Clients that took part in a round, with their samples then."""
    return ledger.pairs("SELECT client, samples FROM replies WHERE round = ?", number)


def participation(ledger: Ledger, since: int) -> list[dict[str, int]]:
    """Clients with their samples in each round after `since`; forgotten clients are not in it."""
    rounds: dict[int, dict[str, int]] = {}
    sql = "SELECT round, client, samples FROM replies WHERE round > ? ORDER BY round"
    for row in ledger.rows(sql, since):
        rounds.setdefault(row["round"], {})[row["client"]] = row["samples"]
    return list(rounds.values())


def first_round_of(ledger: Ledger, client: str) -> int | None:
    """The first round that a client took part in; None if there was none."""
    number: int | None = ledger.value("SELECT MIN(round) FROM replies WHERE client = ?", client)
    return number


def repaired_by(ledger: Ledger, number: int) -> int | None:
    """The request that a round of an older version repaired; None for an ordinary round."""
    request: int | None = ledger.value("SELECT request FROM rounds WHERE round = ?", number)
    return request


def mean_digest(ledger: Ledger, number: int) -> str:
    """The SHA-256 of the mean of a round."""
    return str(ledger.value("SELECT shared_sha256 FROM rounds WHERE round = ?", number))


@dataclass(frozen=True)
class Spent:
    """The cost of rounds."""

    rounds: int
    replies: int
    seconds: float
    cpu_seconds: float


def spent_on_rounds(ledger: Ledger, since: int = 0, until: int | None = None) -> Spent:
    """The cost of the rounds after `since` and up to `until`."""
    sql = (
        "SELECT COUNT(*), SUM(replies), SUM(seconds), SUM(cpu_seconds) FROM rounds "
        "WHERE round > ? AND round <= ?"
    )
    (row,) = ledger.rows(sql, since, last_round(ledger) if until is None else until)
    rounds, replies, seconds, cpu = (value or 0 for value in row.values())
    return Spent(rounds, replies, float(seconds), float(cpu))


def cpu_seconds_of(ledger: Ledger, clients: Collection[str]) -> float:
    """CPU seconds that these clients spent on their accepted replies."""
    spent = ledger.pairs("SELECT client, SUM(cpu_seconds) FROM replies GROUP BY client")
    return float(sum(seconds for client, seconds in spent.items() if client in clients))


def refused_clients(ledger: Ledger) -> list[str]:
    """The client of each refusal in a round, once for each refusal."""
    sql = "SELECT client FROM refusals WHERE round > 0 AND reason NOT LIKE ?"
    return ledger.column(sql, f"{SHORTENED} to %")


def file_names(ledger: Ledger, prefix: str) -> list[str]:
    """Names of committed files that begin with `prefix`."""
    names = ledger.column("SELECT path FROM files ORDER BY path")
    return [name for name in names if name.startswith(prefix)]


def file_digests(ledger: Ledger) -> dict[str, str]:
    """The SHA-256 of each committed file."""
    return ledger.pairs("SELECT path, sha256 FROM files ORDER BY path")


def joined_before(ledger: Ledger, number: int) -> set[str]:
    """Clients that joined before a round."""
    return set(ledger.column("SELECT client FROM clients WHERE joined_round < ?", number))


def digest_of(ledger: Ledger, name: str) -> str | None:
    """The SHA-256 of a committed file."""
    sha256: str | None = ledger.value("SELECT sha256 FROM files WHERE path = ?", name)
    return sha256


def accuracies_of(ledger: Ledger, number: int) -> dict[str, float]:
    """Client -> accuracy, as evaluated after a round."""
    sql = "SELECT client, accuracy FROM evaluations WHERE round = ? ORDER BY client"
    return ledger.pairs(sql, number)
