"""Callbacks made of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pfedul import Callback, Progress


class AtStage(Callback):
    """Calls a function with each stage, what is done of it, and how much there is."""

    def __init__(self, function: Callable[[str, int, int], Any]) -> None:
        self._function = function

    def on_stage(self, stage: str, done: int, of: int, _now: str = "") -> None:
        self._function(stage, done, of)


class AtProgress(Callback):
    """Calls a function with each reply and each complete round."""

    def __init__(self, function: Callable[[Progress], Any]) -> None:
        self._function = function

    def on_reply(self, progress: Progress) -> None:
        self._function(progress)

    on_round = on_reply
