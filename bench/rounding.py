"""Figures as results/ keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rounded(value: Any) -> Any:
    """The same data to four digits: a fifth of the size."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value
