"""Who asks for a removal on Flower: the node of the client itself, in writing, or the operator.

A node signs its request with its own key, on its own machine; the operator hands the file to the
server (`signed-request`), which checks it with the key that the client is bound to. An operator
who asks must say who wants it and why (`by`, `ground`). Both are kept with the request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pfedul.base.clock import now
from pfedul.errors import PfedulError
from pfedul.flower.signing import (
    REQUEST,
    has_signed,
    public_form,
    read_node_key,
    read_public,
    signed,
)
from pfedul.store.ledger import Ledger
from pfedul.store.nodes import bound_keys
from pfedul.store.requests import forgotten
from pfedul.unlearn.asked import Asked

MOST_BYTES = 20_000
_WORDS = {"federation", "client", "ground", "due", "asked_at", "public_key", "signature"}


@dataclass(frozen=True)
class Asking:
    """Whom to forget, and who asks for it; `signed` is the request as the node wrote it."""

    clients: tuple[str, ...]
    by: str | None
    ground: str | None
    due: str | None
    signed: Mapping[str, Any] = field(default_factory=dict)

    def kept(self) -> dict[str, Any]:
        """What is kept with the request, as `Federation.forget` takes it."""
        return {"by": self.by, "ground": self.ground, "due": self.due, "signed": self.signed}


def write_request(
    output: Path, key: Path, folder: Path, client: str, ground: str, due: str | None = None
) -> None:
    """At the node: write a request to forget this client, signed with the node's key.

    `folder` is that of the node config: what it holds says which federation it is.
    """
    asked = Asked(client, ground, due).as_json()
    private = read_node_key(key)
    words = {
        "federation": _federation_of(folder, client),
        "client": client,
        "ground": ground,
        "due": asked["due"],
        "asked_at": now(),
        "public_key": public_form(private).decode(),
    }
    output.write_text(json.dumps(signed(REQUEST, words, private), indent=2) + "\n", "utf-8")


def _federation_of(folder: Path, client: str) -> str:
    names = [path.parent.name for path in folder.glob(f"*/{client}") if path.is_dir()]
    if len(names) != 1:
        raise PfedulError(
            f"{folder} holds tensors of {client} for {len(names)} federations, so it does not say "
            "which one is to forget it; ask the operator to make the request."
        )
    return names[0]


def asking_of(
    ledger: Ledger, clients: Sequence[str], asked: Mapping[str, Any], signed_request: str
) -> Asking:
    """Who asks for a removal; raises if nobody who may does."""
    by, ground, due = (asked.get(name) for name in ("by", "ground", "due"))
    if signed_request:
        return _of_node(ledger, clients, Path(signed_request).expanduser())
    if not (by and ground):
        raise PfedulError(
            'Say who asks for the removal and why: -c \'by="case 17" ground="GDPR Art. 17"\'; '
            'or give the request that the node itself has signed: signed-request="/path".'
        )
    return Asking(tuple(clients), by, ground, due)


def _of_node(ledger: Ledger, clients: Sequence[str], path: Path) -> Asking:
    words = _read(path)
    client = words["client"]
    if tuple(clients) not in {(), (client,)}:
        raise PfedulError(f"{path} asks to forget {client!r}, not {', '.join(clients)}.")
    if words["federation"] != ledger.meta("federation"):
        raise PfedulError(f"{path} is a request to another federation.")
    bound = bound_keys(ledger).get(client)
    if bound is None and client not in forgotten(ledger):
        raise PfedulError(f"{path} asks to forget {client!r}, who is no client of this run.")
    public = words["public_key"].encode()
    key = read_public(public)
    if bound is not None and hashlib.sha256(public).hexdigest() != bound:
        raise PfedulError(f"{path} is not signed with the key of {client}'s node.")
    if key is None or not has_signed(REQUEST, words, key):
        raise PfedulError(f"The signature of {path} is wrong: it was changed, or is a forgery.")
    by = f"{client}, signed by its node"
    return Asking((client,), by, words["ground"], words["due"], words)


def _read(path: Path) -> dict[str, str]:
    """The words of a request; anything else is refused."""
    try:
        with path.open("rb") as file:
            words = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise PfedulError(f"The request {path} cannot be read: {error}.") from None
    if not isinstance(words, dict) or set(words) != _WORDS:
        raise PfedulError(f"{path} is not a request that a node has signed.")
    if not all(isinstance(value, str) for value in words.values()):
        raise PfedulError(f"{path} is not a request that a node has signed.")
    return words
