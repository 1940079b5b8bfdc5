"""Thread counts: results must not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from threadpoolctl import threadpool_limits


@cache
def warm_up() -> None:
    """One gradient of one number, thrown away."""
    weight = torch.nn.Parameter(torch.zeros(1, device="cpu"))
    torch.autograd.backward((weight * 2.0).sum())


@contextmanager
def one_core() -> Iterator[None]:
    """Within the block nothing computes with more than one thread."""
    with one_thread(), threadpool_limits(limits=1):
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes with one thread: the order of sums is then fixed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
