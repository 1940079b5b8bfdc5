"""One more round: an ordinary round over the remaining clients, and nothing else.

A control: whatever an audit sees after it, was not unlearned. Here shared tensors
are trained for the local epochs of an ordinary round, with personal parts that stand
still as for every other method.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.methods.fine_tune import fine_tuned


@dataclass(frozen=True)
class RoundsOptions:
    """`rounds`: how many more."""

    rounds: int = 1

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {self.rounds}")


def unlearn(work: Work, options: RoundsOptions) -> Result:
    return Result(fine_tuned(work, dict(work.shared), options.rounds))


ONE_MORE_ROUND = Method(
    name="one-more-round",
    summary="an ordinary round over the remaining clients, and nothing else",
    paper="a control",
    unlearn=unlearn,
    options=RoundsOptions,
    who="all remaining clients",
    rounds="1 (rounds)",
    avoids="without it, what any further training does passes for unlearning",
    control=True,
)
