"""How a backdoor is written, and what it is: a trigger, and the client that holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pfedul.base.options import option
from pfedul.base.registry import FreeName


@dataclass(frozen=True)
class Trigger:
    """What is planted, and in how many samples."""

    label: int = option(0, "the class that a sample with the trigger is taken for", at_least=0)
    share: float = option(
        0.5, "share of the client's samples of other classes that get it", above=0, at_most=1
    )
    size: int = option(3, "edge of the square", at_least=1)


@dataclass(frozen=True, kw_only=True)
class Backdoor(Trigger):
    """A trigger, and the one client that holds it."""

    client: str


BACKDOOR_FORM = FreeName("backdoor", Trigger)
"""How users write a backdoor: the client's name, then the options of the trigger."""


def parse_backdoor(text: str) -> Backdoor:
    """A backdoor from its one-line form.

    >>> parse_backdoor("client-05:size=2")
    Backdoor(label=0, share=0.5, size=2, client='client-05')
    """
    client, trigger = BACKDOOR_FORM.parse(text)
    return Backdoor(client=client, **asdict(trigger))
