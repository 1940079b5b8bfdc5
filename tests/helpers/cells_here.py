"""Comparisons whose cells work in this process: to start another costs seconds of importing."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pfedul.base.threads import one_thread
from pfedul.compare import worker
from pfedul.compare.cells import CellResult
from pfedul.compare.process import CellTask, Children
from pfedul.protocol import OnStage


@contextmanager
def cells_here() -> Iterator[None]:
    """Meanwhile each cell does here, one after the other, what its process would do."""
    lock = threading.Lock()

    def here(_children: Children, task: CellTask, on_stage: OnStage) -> CellResult:
        sent = pickle.loads(pickle.dumps(task))
        with lock, one_thread():
            return worker.carry_out(sent, on_stage)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pfedul.compare.comparison.in_process", here)
        yield
