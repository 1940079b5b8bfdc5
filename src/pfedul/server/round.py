"""One round at the server: choose clients, ask, check, average.

The server does not know where its clients run: an engine yields their replies in the
order in which they were asked. Replies are added one by one, so memory does not grow
with the number of clients.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.protocol import (
    Accepted,
    Check,
    Engine,
    LocatePersonal,
    OnRefusal,
    OnReply,
    Refusal,
    Reply,
    RoundResult,
    Shortened,
    Task,
)
from pfedul.server.checks import Rules, check_reply, is_finite
from pfedul.server.shortening import shortened

Ask = Callable[..., Generator[Reply, None, None]]
"""`ask_clients` after its first two arguments; see `Run.ask`."""


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
    """Let clients do a task; yields the valid replies, in the order of `clients`.

    The callback `on_reply` gets every reply, refused ones included; `on_refusal` gets the
    refusals. The tensors of a reply are valid until the next reply is requested.
    """
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


class TooFewReplies(PfedulError):
    """A round that may not be committed; the error carries the refusals for the ledger."""

    def __init__(self, number: int, asked: int, refused: Sequence[Refusal], needed: int) -> None:
        self.number = number
        self.refused = tuple(refused)
        worst = f"{refused[0].client}: {refused[0].reason}" if refused else "none was refused"
        super().__init__(
            f"Round {number} was not committed: {asked - len(refused)} of {asked} replies were "
            f"usable and {needed} are needed ({worst}); go on with a lower --min-replies, "
            "or start another run with a lower --lr."
        )


class MeanOverflows(PfedulError):
    """A round whose replies are finite and whose mean is not."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"Round {number} was not committed: the mean of its replies overflows.")


def choose_clients(
    clients: Sequence[str], participation: float, seed: int, number: int
) -> list[str]:
    """The clients of a round.

    Each client draws a number of its own and the smallest are taken, so the draws
    of the others stay the same when a client leaves.
    """
    count = max(1, round(participation * len(clients)))
    draws = {client: derive_seed(seed, "participation", number, client) for client in clients}
    return sorted(sorted(clients, key=draws.__getitem__)[:count])


def run_round(
    ask: Ask,
    number: int,
    clients: Sequence[str],
    shared: Tensors,
    rules: Rules,
    keep: Callable[[Reply], None],
    epochs: int | None = None,
    steps: int | None = None,
    rate: float | None = None,
) -> RoundResult:
    """One round: broadcast, check, aggregate. `keep` is called with each accepted reply.

    Large clients are asked first, so the last one to finish is a small one.
    """
    order = sorted(clients, key=lambda client: (-rules.samples[client], client))
    result = RoundResult(number, shared)
    aggregate, norms = rules.start(shared), dict[str, float]()
    weights = rules.weighing.weights({client: rules.samples[client] for client in order})

    def check(reply: Reply, client: str) -> str | None:
        reason, norms[client] = check_reply(reply, rules, shared, client)
        return reason

    task = Task("fit", number, epochs, steps=steps, rate=rate)
    with closing(ask(task, order, shared, check, on_refusal=result.refused.append)) as replies:
        for reply in replies:
            norm = norms[reply.client]
            reply = _shortened(reply, norm, shared, rules, result)
            aggregate.add(reply.client, reply.shared, weights[reply.client])
            keep(reply)
            result.accepted.append(_accepted(reply, norm))
    if len(result.accepted) < rules.min_replies:
        raise TooFewReplies(number, len(order), result.refused, rules.min_replies)
    result.shared, result.noise = aggregate.result(), aggregate.noise
    result.shares = {item.client: aggregate.share(item.client) for item in result.accepted}
    if not all(is_finite(tensor) for tensor in result.shared.values()):
        raise MeanOverflows(number)
    return result


def _shortened(
    reply: Reply, norm: float, shared: Tensors, rules: Rules, result: RoundResult
) -> Reply:
    """The reply, shortened to the limit; that it was is noted in the result."""
    if rules.limit is None or norm <= rules.limit:
        return reply
    result.shortened.append(Shortened(reply.client, norm, rules.limit))
    return shortened(reply, shared, rules.parameters, rules.limit / norm)


def _accepted(reply: Reply, norm: float) -> Accepted:
    loss = float(reply.metrics["loss"])
    return Accepted(reply.client, reply.samples, loss, norm, reply.cpu_seconds)
