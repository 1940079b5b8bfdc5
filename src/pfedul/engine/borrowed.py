"""The engine of one federation, lent to another of the same clients.

Workers and data then exist only once, however many federations an audit trains. Each
has its own seed, which travels with its tasks.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from pfedul.base.tensors import Tensors
from pfedul.protocol import Engine, LocatePersonal, Reply, Task


class BorrowedEngine:
    """Runs tasks on the lender with another seed; closing it leaves the lender running."""

    def __init__(self, lender: Engine, seed: int) -> None:
        self.in_process = lender.in_process
        self._lender = lender
        self._seed = seed

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        seed = self._seed if task.seed is None else task.seed
        return self._lender.run(replace(task, seed=seed), clients, shared, locate_personal)

    def close(self) -> None:
        """Nothing to close: the lender is still in use."""
