"""Recalibration alone: the shared parameters stay, the others refit their personal parts.

A control: part of what a method keeps of the others' accuracy is what recalibration gives to
anybody. Only shared normalisation statistics are estimated again, as recalibration does.
"""

from __future__ import annotations

from pfedul.base.registry import NoOptions
from pfedul.unlearn.base import About, Does, Method, Result
from pfedul.unlearn.context import Context


def unlearn(ctx: Context, _options: NoOptions) -> Result:
    return Result(dict(ctx.shared))


RECALIBRATION = Method(
    name="recalibration",
    summary="leave the shared parameters, refit the others' personal parts",
    unlearn=unlearn,
    about=About(
        paper="a control",
        who="every remaining client recalibrates on its own",
        avoids="without it, what recalibration gives passes for what a method keeps",
        control=True,
    ),
    does=Does(recalibrates=True, clusters=True),
)
