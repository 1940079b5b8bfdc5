"""No-unlearn: the targets go, the shared tensors stay as they are. The paper's lower bound."""

from __future__ import annotations

from pfedul.base.registry import NoOptions
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work


def unlearn(work: Work, _options: NoOptions) -> Result:
    return Result(work.shared)


NONE = Method(
    name="none",
    summary="leave the shared tensors as they are",
    paper="a control; 'No-Unlearn' of Liu, Li, Zhang, arXiv 2606.16304",
    unlearn=unlearn,
    avoids="a table without it cannot show that there was something to forget",
    control=True,
    clustered=True,
    untrained=True,
)
