"""Who is who: a client's name is bound to the key with which its node proves itself.

Flower's superlink lets only nodes in whose public keys are registered, and says
which key a node has. The first node that claims a name has it from then on, by
its key; a node that claims a name that is another's gets nothing. Names are
claims, keys are proof.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from flwr.serverapp import Grid

from pfedul.base.tensorfile import is_digest
from pfedul.data.checks import check_ids
from pfedul.engine.flower.wire import Order, clean_text
from pfedul.errors import PfedulError
from pfedul.federation import Federation
from pfedul.flower.queries import Server, Words, ask
from pfedul.protocol import Task
from pfedul.settings import Settings, fixed
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.tables import Member, now


@dataclass(frozen=True)
class Introduced:
    """A node that has said who it is, and what the server must know of its data."""

    key: str
    member: Member
    shape: tuple[int, ...]
    classes: int


def online_nodes(grid: Grid) -> dict[str, int]:
    """The key (SHA-256 of the public key) of every node that is connected -> its id now."""
    return {hashlib.sha256(node.public_key).hexdigest(): node.node_id for node in grid.get_nodes()}


def bound_keys(ledger: Ledger) -> dict[str, str]:
    """Client -> the key of its node."""
    rows = ledger.rows("SELECT client, node_key FROM nodes ORDER BY client")
    return {row["client"]: row["node_key"] for row in rows}


def barred_keys(ledger: Ledger) -> set[str]:
    """Keys of nodes whose client was forgotten."""
    return {row["node_key"] for row in ledger.rows("SELECT node_key FROM barred")}


def binding_row(client: str, key: str) -> Statement:
    """A name bound to a key."""
    return insert("nodes", client=client, node_key=key, bound_at=now())


def ask_who(
    server: Server, settings: Settings, nodes: Mapping[str, int]
) -> tuple[dict[str, Introduced | str], list[Statement]]:
    """Ask nodes who they are; a text says why one cannot be taken."""
    order = Order(Task("hello", 0), "", settings=fixed(settings))
    answers, rows = ask(server, order, nodes)
    return {key: read_introduction(key, words) for key, words in answers.items()}, rows


def read_introduction(key: str, words: Words) -> Introduced | str:
    """A node's words of itself, or why they cannot be taken."""
    if words.get("failure"):
        return str(words["failure"])
    try:
        counts = _count(words["train_samples"]), _count(words["test_samples"])
        member = Member(words["client"], *counts, words["data_sha256"])
        check_ids([member.client])
        if not is_digest(member.data_sha256):
            raise ValueError("data_sha256 is no SHA-256")
        shape = tuple(_count(size) for size in list(words["shape"]))
        return Introduced(key, member, shape, _count(words["classes"]))
    except PfedulError as error:
        return clean_text(str(error))
    except Exception as error:  # they may be anything at all
        return clean_text(f"its introduction cannot be read ({error!r})")


def _count(value: object) -> int:
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError("a count must be a whole number from 1 up")
    return value


def meet_strangers(server: Server, federation: Federation) -> list[Introduced]:
    """Ask nodes that are bound to no client who they are; returns those that claim a free name.

    Nodes of forgotten clients are not even asked. All of them get nothing, and are
    written down; a node with a free name can be admitted.
    """
    ledger = federation.store.ledger
    bound = bound_keys(ledger)
    known = {*bound.values(), *barred_keys(ledger)}
    nodes = {key: node for key, node in online_nodes(server.grid).items() if key not in known}
    claims, rows = ask_who(server, federation.settings, nodes)
    for key, claim in claims.items():
        name, reason = _refusal(claim, bound)
        rows.append(insert("strangers", node_key=key, claim=name, reason=reason, at=now()))
        server.tell(f"The node {key[:12]} gets nothing: {reason}.")
    ledger.write(rows)
    found = [claim for claim in claims.values() if isinstance(claim, Introduced)]
    return [claim for claim in found if claim.member.client not in bound]


def _refusal(claim: Introduced | str, bound: Mapping[str, str]) -> tuple[str, str]:
    """The name that a node claims, and why it is not taken in."""
    if isinstance(claim, str):
        return "?", claim
    name = claim.member.client
    if name in bound:
        return name, f"the name {name} belongs to a node with another key"
    return name, f'{name} is no client of this run (action="admit" makes it one)'
