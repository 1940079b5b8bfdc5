"""What the server asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Protocol

from pfedul.base.tensors import Tensors
from pfedul.client import Reply, Task

LocatePersonal = Callable[[str], Path | None]
"""The file of a client's personal tensors; None where it has none."""


class Engine(Protocol):
    """Decides where clients work, and nothing else.

    Replies come in the order of `clients`, whatever the order in which they are
    made, so that what the server computes from them is the same for any engine.
    The tensors of a reply last until the next one is asked for. `in_process`
    says whether clients work on this process's own CPU time.
    """

    in_process: bool

    def run(
        self,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        locate_personal: LocatePersonal,
    ) -> Generator[Reply, None, None]: ...

    def close(self) -> None: ...
