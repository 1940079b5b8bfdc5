"""How clients are asked: every reply is checked, and a bad one is refused with its reason."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Protocol

from pfedul.base.tensors import Tensors
from pfedul.protocol import (
    Check,
    Engine,
    LocatePersonal,
    OnRefusal,
    OnReply,
    Refusal,
    Reply,
    Task,
)


class Ask(Protocol):
    """Let clients do a task; yields the valid replies, in the order of `clients`.

    The callback `on_reply` gets every reply, refused ones included; `on_refusal` gets the
    refusals. The tensors of a reply are valid until the next reply is requested.
    """

    def __call__(
        self,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        check: Check,
        *,
        on_reply: OnReply | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> Generator[Reply, None, None]: ...


def ask_clients(
    engine: Engine,
    locate_personal: LocatePersonal,
    task: Task,
    clients: Sequence[str],
    shared: Tensors,
    check: Check,
    *,
    on_reply: OnReply | None = None,
    on_refusal: OnRefusal | None = None,
) -> Generator[Reply, None, None]:
    """See `Ask`."""
    with closing(engine.run(task, clients, shared, locate_personal)) as replies:
        for client, reply in zip(clients, replies, strict=True):
            if on_reply is not None:
                on_reply(reply)
            reason = reply.failure or _reason(check, reply, client)
            if reason is None:
                yield reply
            elif on_refusal is not None:
                on_refusal(Refusal(client, reason, silent=reply.failure is not None))


def _reason(check: Check, reply: Reply, client: str) -> str | None:
    """The reason to refuse a reply. Any exception is one: a reply is untrusted input."""
    try:
        return check(reply, client)
    except Exception as error:
        return f"it cannot be read ({type(error).__name__}: {error})"
