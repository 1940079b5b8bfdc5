"""When answers of clients may end a removal: if so many say the same that no single one can.

Who sends nonsense is left out, and not measured. A removal for which nobody else is there to ask
stays pending, and can be asked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pfedul.base.text import counted
from pfedul.errors import MethodFailed, PfedulError, TransientError
from pfedul.protocol import Refusal
from pfedul.server.checks import NOT_FINITE


def agree(saying: Collection[str], clients: Collection[str]) -> bool:
    """Whether it is said by more than half of these clients, and by two at least.

    Clients that are away count as not saying it: otherwise the only one there could end a removal.

    >>> agree({"ann", "bob"}, {"ann", "bob", "cid"}), agree({"ann"}, {"ann"})
    (True, False)
    """
    return len(saying) >= 2 and 2 * len(saying) > len(clients)


def diverged(method: str, what: str) -> MethodFailed:
    """The error for values that are not finite."""
    return MethodFailed(
        f"The method '{method}' diverged: {what} has values that are not finite. "
        "The run is as it was; try smaller steps, or another method."
    )


def without_answers(
    method: str, clients: Collection[str], targets: Collection[str], refusals: Sequence[Refusal]
) -> PfedulError:
    """The error for a method that asked these clients and has no usable answer at all.

    The targets' own answers can end their removal by a method that needs them.
    """
    speaking = {refusal.client for refusal in refusals if not refusal.silent}
    agreed = agree(speaking, clients) or not speaking.isdisjoint(targets)
    if agreed and all(NOT_FINITE in refusal.reason for refusal in refusals):
        return diverged(method, "what clients send back")
    kind = MethodFailed if agreed else TransientError
    return kind(
        f"The method '{method}' had no usable answer from any of "
        f"{', '.join(refusal.client for refusal in refusals)}; see 'pfedul status', and ask again "
        "when they answer, or with another method."
    )


def refuse_ruin(
    method: str,
    remaining: Collection[str],
    silent: Collection[str],
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> None:
    """Divergence need not show in the tensors: large values overflow when they are used."""
    answering = set(remaining) - set(silent)
    if before and not after and agree(answering, remaining):
        raise MethodFailed(
            f"The method '{method}' diverged: with its result no remaining client has finite "
            "figures. The run is as it was; try smaller steps, or another method."
        )


def not_measured(
    remaining: Collection[str], silent: Collection[str], after: Mapping[str, float]
) -> tuple[str, ...]:
    """A note on clients that answered without usable figures; not whose: see `Account.notes`."""
    odd = set(remaining) - set(silent) - after.keys()
    if not odd:
        return ()
    return (f"not measured: {counted(len(odd), 'client')} answered without usable figures",)
