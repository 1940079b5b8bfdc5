"""A named figure with its range and direction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """What tables and plots must know about a metric; `best` is the ideal value."""

    name: str
    best: float
    low: float
    high: float
    higher_is_better: bool | None
    summary: str
