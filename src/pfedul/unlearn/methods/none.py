"""No-unlearn: the targets go, the shared tensors stay as they are. The paper's lower bound."""

from __future__ import annotations

from pfedul.base.registry import NoOptions
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context


def unlearn(ctx: Context, _options: NoOptions) -> Result:
    return Result(ctx.shared)


NONE = Method(
    name="none",
    summary="leave the shared tensors as they are",
    unlearn=unlearn,
    about=About(
        paper="a control; 'No-Unlearn' of Liu, Li, Zhang, arXiv 2606.16304",
        avoids="a table without it cannot show that there was something to forget",
        control=True,
    ),
    needs=Needs(trained=False),
    does=Does(clusters=True),
)
