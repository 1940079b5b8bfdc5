"""When Ctrl-C may take effect."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C, or a request to terminate, takes effect after the block.

    For what must be done as a whole, and for calls into libraries that turn a `KeyboardInterrupt`
    into an error of their own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: caught.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])
