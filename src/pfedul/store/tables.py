"""The ledger rows of what happens in a federation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime

from pfedul.base.tensorfile import digest
from pfedul.evaluation import Evaluation
from pfedul.member import Member
from pfedul.server.round import Refusal, RoundResult
from pfedul.settings import Settings, fixed
from pfedul.store.ledger import Statement, insert
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


def settings_row(settings: Settings) -> Statement:
    """What may not change, so that a configuration edited by hand is noticed."""
    return insert("meta", key="settings_sha256", value=settings_digest(settings))


def settings_digest(settings: Settings) -> str:
    """SHA-256 of the settings that a later call may not change."""
    return digest(json.dumps(fixed(settings), sort_keys=True).encode())


def client_row(member: Member, joined_round: int) -> Statement:
    """A client that joins."""
    return insert("clients", **asdict(member), joined_round=joined_round)


def no_stranger_row(client: str, node_key: str) -> Statement:
    """No row is left of nodes that claimed this name, or of this node before it was known."""
    return "DELETE FROM strangers WHERE claim = ? OR node_key = ?", (client, node_key)


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
