"""One more round over the remaining clients, and nothing else: a control.

Whatever an audit sees after it was not unlearned.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.unlearn.base import About, Method, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned


@dataclass(frozen=True)
class RoundsOptions:
    """`rounds`: how many more."""

    rounds: int = option(1, "How many more rounds.", at_least=1)


def unlearn(ctx: Context, options: RoundsOptions) -> Result:
    return Result(fine_tuned(ctx, dict(ctx.shared), options.rounds))


ONE_MORE_ROUND = Method(
    name="one-more-round",
    summary="an ordinary round over the remaining clients, and nothing else",
    unlearn=unlearn,
    about=About(
        paper="a control",
        who="all remaining clients",
        rounds="1 (rounds)",
        avoids="without it, what any further training does passes for unlearning",
        control=True,
    ),
    options=RoundsOptions,
    client=TRAIN_SHARED,
)
