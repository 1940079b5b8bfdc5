"""Work that is killed, for real, just before one of its durable acts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pfedul.store import ledger, store


def dying_before(step: int, work: Callable[[], None]) -> Callable[[], None]:
    """Work that ends by SIGKILL before its step-th sync, move, deletion or ledger write.

    To be run in a process of its own: it patches the modules that act.
    """

    def dying() -> None:
        acts = 0

        def deadly(act: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **options: Any) -> Any:
                nonlocal acts
                acts += 1
                if acts == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return act(*arguments, **options)

            return counted

        # A kill loses nothing that was written, so syncs need only be counted.
        os.fsync = deadly(lambda _descriptor: None)
        os.replace = deadly(os.replace)
        Path.unlink = deadly(Path.unlink)  # type: ignore[method-assign]
        store.shutil.rmtree = deadly(store.shutil.rmtree)
        ledger.Ledger.write = deadly(ledger.Ledger.write)  # type: ignore[method-assign]
        work()

    return dying
