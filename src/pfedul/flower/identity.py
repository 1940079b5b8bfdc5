"""Who the nodes are: each client's name is bound to the key of its node.

Flower's superlink accepts only nodes with registered public keys, and says which
key a node has. The first node that claims a name keeps it; a node that claims a
name bound to another key gets nothing. Questions to nodes (who are you, erase your
folder) are answered in words; no tensor goes out with them. A forgotten client is
asked to erase its own folder until it confirms that it has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median_low
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from pfedul.base.hashes import is_digest
from pfedul.data.checks import check_ids
from pfedul.engine.flower.grid import Exchange, Traffic, lifetime
from pfedul.engine.flower.wire import MESSAGE_TYPES, NodeOrder, clean_text, open_words, pack_order
from pfedul.errors import PfedulError
from pfedul.federation import Federation
from pfedul.flower.app_config import AppOptions
from pfedul.flower.signing import RECEIPT, has_signed, read_public
from pfedul.protocol import Task
from pfedul.run.assembly import ModelFactory
from pfedul.settings import Settings, fixed
from pfedul.store.ledger import Statement
from pfedul.store.nodes import (
    barred_keys,
    bound_keys,
    confirmed_rows,
    stranger_row,
    traffic_row,
    unconfirmed_erasures,
)
from pfedul.store.requests import SIGNED
from pfedul.store.tables import Member

Words = Mapping[str, Any]


@dataclass(frozen=True)
class FlowerServer:
    """Flower's grid, the options of this action, the user's own model if any, and a log."""

    grid: Grid
    options: AppOptions
    model: ModelFactory | None
    tell: Callable[[str], None]


def ask(
    server: FlowerServer, order: NodeOrder, nodes: Mapping[str, int]
) -> tuple[dict[str, Words], list[Statement]]:
    """Each node's answer (a failure is one too), and the ledger row of the traffic."""
    if not nodes:
        return {}, []
    action, deadline = order.task.action, server.options.answer_deadline
    content, kind = pack_order(order), MESSAGE_TYPES[action]
    ttl = lifetime(deadline)
    messages = {key: Message(content, node, kind, ttl=ttl) for key, node in nodes.items()}
    traffic = Traffic()
    exchange = Exchange(server.grid, messages, deadline, traffic)

    def read(content: RecordDict) -> Words:
        words = open_words(action, content)
        failure = words.get("failure")
        return words if failure is None else {"failure": clean_text(failure)}

    results = {key: exchange.wait_for(key, read) for key in nodes}
    answers = {key: {"failure": r} if isinstance(r, str) else r for key, r in results.items()}
    return answers, [traffic_row(action, order.task.number, len(nodes), asdict(traffic))]


@dataclass(frozen=True)
class Registered:
    """What Flower says of a node: its id now, and the name and key that it was registered with."""

    id: int
    name: str
    public_key: bytes


@dataclass(frozen=True)
class Introduced:
    """A node that has said who it is, and what the server must know of its data."""

    key: str
    member: Member
    shape: tuple[int, ...]
    classes: int


def online_nodes(grid: Grid) -> dict[str, int]:
    """The key (SHA-256 of the public key) of every node that is connected -> its id now."""
    return {key: node.id for key, node in registered_nodes(grid).items()}


def registered_nodes(grid: Grid) -> dict[str, Registered]:
    """Every node that is connected, by the SHA-256 of its public key."""
    nodes = [Registered(node.node_id, node.name, node.public_key) for node in grid.get_nodes()]
    return {hashlib.sha256(node.public_key).hexdigest(): node for node in nodes}


def ask_who(
    server: FlowerServer, settings: Settings, nodes: Mapping[str, int]
) -> tuple[dict[str, Introduced | str], list[Statement]]:
    """Ask nodes who they are; a text says why one cannot be taken."""
    order = NodeOrder(Task("hello", 0), "", settings=fixed(settings))
    answers, rows = ask(server, order, nodes)
    names = {key: node.name for key, node in registered_nodes(server.grid).items()}
    claims = {key: read_introduction(key, words) for key, words in answers.items()}
    return {key: under_its_name(claim, names.get(key)) for key, claim in claims.items()}, rows


def under_its_name(claim: Introduced | str, name: str | None) -> Introduced | str:
    """A node that is registered under a name is that client, and no other."""
    if isinstance(claim, str) or not name or claim.member.client == name:
        return claim
    return clean_text(f"it claims to be {claim.member.client}, and is registered as {name}")


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


def believed(claim: Introduced | str, others: Sequence[int], most: int | None) -> Introduced | str:
    """The introduction, or why its number of samples, its weight in every mean, is not believed.

    `others` are the numbers of everybody else, `most` is the operator's bound.
    """
    if isinstance(claim, str):
        return claim
    count = claim.member.train_samples
    usual = median_low(others) if others else count
    if count <= (most or FAR * usual):
        return claim
    return (
        f"it says that it has {count:,} training samples, and "
        + (f"--max-samples is {most:,}" if most else f"the median of the others is {usual:,}")
        + "; if that is true, give a higher --max-samples"
    )


FAR = 10
"""A node with so many times the median of samples is taken only if the operator says so."""


def meet_strangers(server: FlowerServer, federation: Federation) -> list[Introduced]:
    """Ask nodes that are bound to no client who they are; returns those that claim a free name.

    Nodes of forgotten clients are not even asked. All of them get nothing, and are
    written down; a node with a free name can be admitted.
    """
    ledger = federation.store.ledger
    bound = bound_keys(ledger)
    known = {*bound.values(), *barred_keys(ledger)}
    nodes = {key: node for key, node in online_nodes(server.grid).items() if key not in known}
    claims, rows = ask_who(server, federation.settings, nodes)
    counts = [member.train_samples for member in federation.members.values()]
    most = federation.settings.max_samples
    claims = {key: believed(claim, counts, most) for key, claim in claims.items()}
    for key, claim in claims.items():
        name, reason = _refusal(claim, bound)
        rows.append(stranger_row(key, name, reason))
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


def confirm_erasures(server: FlowerServer, federation: Federation) -> None:
    """Ask those who are connected and have yet to confirm; note their receipts."""
    ledger = federation.store.ledger
    waiting = unconfirmed_erasures(ledger)
    online = registered_nodes(server.grid) if waiting else {}
    for row in waiting:
        if row["node_key"] in online:
            _ask_one(server, federation, row, online[row["node_key"]])


def _ask_one(
    server: FlowerServer, federation: Federation, row: Mapping[str, Any], node: Registered
) -> None:
    ledger, target = federation.store.ledger, row["target"]
    name = str(ledger.meta("federation"))
    order = NodeOrder(Task("erase", int(row["request"])), target, name)
    answers, rows = ask(server, order, {target: node.id})
    words = answers[target]
    receipt = words.get("failure") or _receipt(words, name, row, node)
    if isinstance(receipt, str):
        server.tell(f"{target} has not confirmed: {receipt}.")
    else:
        rows += confirmed_rows(row, receipt)
        server.tell(f"{target} confirms that its folder is erased.")
    ledger.write(rows)


@dataclass(frozen=True)
class ExpectedReceipt:
    """What the server knows of a receipt before it comes.

    `waiting` names the hash of what the node held: who erased an empty folder erased another one.
    `key`: the node's public key, if it is one that signs.
    """

    federation: str
    client: str
    waiting: str | None
    key: EllipticCurvePublicKey | None


def _receipt(
    words: Words, federation: str, row: Mapping[str, Any], node: Registered
) -> dict[str, Any] | str:
    try:
        key = read_public(node.public_key)
    except PfedulError as error:
        return str(error)
    return read_receipt(words, ExpectedReceipt(federation, row["target"], row["receipt"], key))


def read_receipt(words: Words, expected: ExpectedReceipt) -> dict[str, Any] | str:
    """What is kept of a node's receipt, or why it confirms nothing."""
    try:
        held = json.loads(expected.waiting or "{}").get("held")
        if (words["federation"], words["client"]) != (expected.federation, expected.client):
            return "an odd receipt"
        if expected.key is not None and not has_signed(RECEIPT, words, expected.key):
            return _NOT_SIGNED
        if held is not None and held not in words["sha256"]:
            return "its receipt does not name the tensors that it held; has its folder moved?"
        counts = {key: _size(words[key]) for key in ("files", "bytes")}
        erased_at = clean_text(words["erased_at"])[:MOMENT]
        return {"erased_at": erased_at, **counts, SIGNED: expected.key is not None}
    except Exception as error:  # they may be anything at all
        return clean_text(f"its receipt cannot be read ({error!r})")


_NOT_SIGNED = (
    "its receipt is not signed with the key of its node; name the file of that key in its node "
    'config: key="/etc/pfedul/node.key"'
)


def _size(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError("no size where there should be one")
    return value


MOMENT = len("2026-01-01T00:00:00+00:00")
