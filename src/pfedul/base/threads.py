"""The first step of an optimiser in a process takes about a second of imports inside torch.

Nobody's work should be charged with it: it is done once, before anything is measured.
"""

from __future__ import annotations

from functools import cache

import torch


@cache
def warm_up() -> None:
    """One step on one number, thrown away."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    torch.autograd.backward((weight * 2.0).sum())
    optimizer.step()
