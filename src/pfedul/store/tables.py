"""Rows of the ledger: what is written about clients, rounds and evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pfedul.data import ClientData, fingerprint
from pfedul.evaluation import Evaluation
from pfedul.protocol import Refusal, RoundResult
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.version import __version__


def now() -> str:
    """This moment, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_rows() -> list[Statement]:
    """What is known of a run as a whole when it is created."""
    return [
        insert("meta", key="created_at", value=now()),
        insert("meta", key="pfedul", value=__version__),
    ]


def client_row(member: Member, joined_round: int) -> Statement:
    """A client that joins."""
    return insert("clients", **asdict(member), joined_round=joined_round)


def round_rows(
    result: RoundResult, sha256: str, request: int | None, cost: Mapping[str, float]
) -> list[Statement]:
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
            request=request,
            **cost,
        )
    ]
    rows += [
        insert(
            "replies",
            round=result.number,
            client=reply.client,
            samples=reply.samples,
            loss=reply.loss,
            update_norm=reply.update_norm,
            cpu_seconds=reply.cpu_seconds,
        )
        for reply in accepted
    ]
    return rows + refusal_rows(result.number, result.refused)


def refusal_rows(number: int, refused: Iterable[Refusal]) -> list[Statement]:
    """Replies that were refused, each with the reason."""
    return [
        insert("refusals", round=number, client=item.client, reason=item.reason, at=now())
        for item in refused
    ]


def evaluation_rows(evaluation: Evaluation, commit: int) -> list[Statement]:
    """Each client's figures after a round, in place of older ones, and the commit they are of."""
    older = "DELETE FROM evaluations WHERE round = ?", (evaluation.round,)
    return [older, insert("meta", key="evaluated_commit", value=str(commit))] + [
        insert(
            "evaluations",
            round=evaluation.round,
            client=client,
            accuracy=score.accuracy,
            loss=score.loss,
            samples=score.samples,
        )
        for client, score in evaluation.clients.items()
    ]


@dataclass(frozen=True)
class Member:
    """A client as the ledger knows it; its data themselves may be elsewhere."""

    client: str
    train_samples: int
    test_samples: int
    data_sha256: str


def member_of(client: str, data: ClientData) -> Member:
    """A client whose data are at hand."""
    return Member(client, len(data.train), len(data.test), fingerprint(data))


def read_members(ledger: Ledger) -> dict[str, Member]:
    """Everybody who takes part."""
    columns = "client, train_samples, test_samples, data_sha256"
    rows = ledger.rows(f"SELECT {columns} FROM clients WHERE status = 'active' ORDER BY client")
    return {row["client"]: Member(**row) for row in rows}
