"""The engine that works in this process, for tests, debugging and small machines."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import Tensors
from pfedul.base.threads import warm_up
from pfedul.client import perform, scratch_of
from pfedul.protocol import LocatePersonal, Reply, Task, Workbench


class InlineEngine:
    """One client after the other, in the order asked for."""

    in_process = True

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._scratch = scratch_of(bench)
        warm_up()

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        for client in clients:
            path = locate_personal(client)
            personal = {} if path is None else read_file(path)
            yield perform(self._bench, self._scratch, task, client, shared, personal)

    def close(self) -> None:
        """Nothing to close."""
