"""One core for torch and for the libraries below numpy and scikit-learn.

An audit fits hundreds of small regressions. Threads make each of them several times
slower, more so on a busy machine, and the last digits of a result depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from pfedul.client import one_thread


@contextmanager
def one_core() -> Iterator[None]:
    """Within the block nothing computes with more than one thread."""
    with one_thread(), threadpool_limits(limits=1):
        yield
