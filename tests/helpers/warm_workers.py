"""Worker processes that outlive the federations they work for.

To start one costs seconds of importing, so tests of what engines have in common
share them. How workers start, end and die is tested in tests/engine, without this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pfedul.base.tensorfile import encode
from pfedul.engine import start_engine
from pfedul.protocol import Engine, Reply, Workbench


class LentEngine:
    """Works as its lender does; closing it leaves the lender at work."""

    def __init__(self, lender: Engine) -> None:
        self.in_process = lender.in_process
        self._lender = lender

    def run(self, *arguments: Any) -> Iterator[Reply]:
        return self._lender.run(*arguments)

    def close(self) -> None:
        """The lender goes on."""


@contextmanager
def warm_workers() -> Iterator[dict[Any, Engine]]:
    """Federations of the same model class, data and training share their workers meanwhile."""
    engines: dict[Any, Engine] = {}

    def start(name: str, workers: int | None, bench: Workbench) -> Engine:
        if name != "processes":
            return start_engine(name, workers, bench)
        key = (workers, *_as_workers_see(bench))
        if key not in engines:
            engines[key] = start_engine(name, workers, bench)
        return LentEngine(engines[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pfedul.run.run.start_engine", start)
        try:
            yield engines
        finally:
            for engine in engines.values():
                engine.close()


def _as_workers_see(bench: Workbench) -> tuple[Any, ...]:
    """What workers are told when they start, in a form that can be compared."""
    tensors = {}
    for client, parts in bench.data.items():
        for name, part in (("train", parts.train), ("test", parts.test)):
            tensors[f"{client}/{name}/x"], tensors[f"{client}/{name}/y"] = part.x, part.y
    model = encode(bench.build_model().state_dict())
    training = (bench.personalization.name, bench.options, bench.training, bench.seed)
    return model, encode(tensors), repr((bench.split, bench.head, *training, sorted(bench.work)))
