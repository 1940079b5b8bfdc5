"""Engines: where clients work. All follow one protocol.

`inline` and `processes` on this machine; `flower-simulation` on Flower's
simulation, which needs an extra and is imported only when asked for.
"""

from __future__ import annotations

import os

from pfedul.base.names import ENGINES
from pfedul.engine.inline import InlineEngine
from pfedul.engine.processes import ClientFailure as ClientFailure
from pfedul.engine.processes import ProcessesEngine
from pfedul.errors import PfedulError
from pfedul.protocol import Engine as Engine
from pfedul.protocol import Workbench


def start_engine(name: str, workers: int | None, bench: Workbench) -> Engine:
    """The engine of that name; `auto` takes processes where there is more than one core.

    Processes need nameless shared memory, which Linux has: elsewhere `auto` is inline.
    """
    count = min(workers or available_cores(), max(1, len(bench.data)))
    if name == "auto":
        name = "processes" if count > 1 and hasattr(os, "memfd_create") else "inline"
    if name == "inline":
        return InlineEngine(bench)
    if name == "processes":
        return ProcessesEngine(bench, count)
    if name == "flower-simulation":
        from pfedul.engine.flower.simulation import FlowerSimulationEngine

        return FlowerSimulationEngine(bench, count)
    raise PfedulError(f"Unknown engine '{name}'; known are: {', '.join(ENGINES)}.")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
