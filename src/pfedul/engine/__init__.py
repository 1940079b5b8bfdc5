"""Engines: where clients work. All follow one protocol.

`inline` and `processes` on this machine; `flower-simulation` on Flower's
simulation, which needs an extra and is imported only when asked for.
"""

from __future__ import annotations

import os

from pfedul.base.names import ENGINES
from pfedul.engine.inline import InlineEngine
from pfedul.engine.probe import processes_pay
from pfedul.engine.processes import ClientFailure as ClientFailure
from pfedul.engine.processes import ProcessesEngine
from pfedul.errors import PfedulError
from pfedul.protocol import Engine as Engine
from pfedul.protocol import Workbench


def start_engine(name: str, workers: int | None, bench: Workbench, rounds: int = 0) -> Engine:
    """The engine of that name; `auto` takes processes where they save more time than they cost.

    They need nameless shared memory, which Linux has: elsewhere `auto` is inline. `rounds` are
    still to be played. Whoever gives a number of `workers` wants processes.
    """
    count = min(workers or available_cores(), max(1, len(bench.data)))
    if name == "auto":
        possible = count > 1 and hasattr(os, "memfd_create")
        wanted = possible and (workers is not None or processes_pay(bench, count, rounds))
        name = "processes" if wanted else "inline"
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
