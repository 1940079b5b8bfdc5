"""The figures that experiments can show: a name, a title, and where a row of results has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
"""The figures of one removal, as a comparison has them (compare/document.py)."""


@dataclass(frozen=True)
class Column:
    """One figure of a removal; `form` is how it is printed, in the paper's unit.

    `interval` is the name of its interval among the figures, where it has one.
    """

    name: str
    title: str
    value: Callable[[Figures], float | None]
    form: str
    interval: str = ""


def _percent(name: str) -> Callable[[Figures], float | None]:
    return lambda row: None if row.get(name) is None else 100 * row[name]


def _plain(name: str) -> Callable[[Figures], float | None]:
    return lambda row: row.get(name)


def _forgotten(row: Figures) -> float | None:
    return None if row.get("verdict") is None else 100.0 * (row["verdict"] == "forgotten")


def _megabytes(row: Figures) -> float | None:
    return None if row.get("bytes_sent") is None else row["bytes_sent"] / 1e6


_ALL = (
    Column("mia", "MIA %", _percent("mia_accuracy"), ".1f"),
    Column("accuracy", "Rem. %", _percent("remaining_accuracy"), ".1f"),
    Column("shared", "shared model %", _percent("shared_accuracy_after"), ".1f"),
    Column("pps", "PPS", _plain("pps"), ".3f", "pps_interval"),
    Column("cfi", "CFI", _plain("cfi"), ".3f", "cfi_interval"),
    Column("removed", "leak removed %", _percent("removed"), ".0f"),
    Column("forgotten", "forgotten %", _forgotten, ".0f"),
    Column("seconds", "seconds", _plain("seconds"), ".1f"),
    Column("cpu", "CPU seconds", _plain("cpu_seconds"), ".1f"),
    Column("speedup", "speed-up", _plain("speedup"), ".1f"),
    Column("cpu_speedup", "speed-up, CPU time", _plain("cpu_speedup"), ".1f"),
    Column("rounds", "rounds", _plain("rounds"), ".0f"),
    Column("sent", "MB sent", _megabytes, ".1f"),
    Column("lowest", "lowest", _plain("lowest_ratio"), ".3f"),
    Column("lower_quartile", "lower quartile", _plain("lower_quartile"), ".3f"),
    Column("median", "median", _plain("median_ratio"), ".3f"),
    Column("upper_quartile", "upper quartile", _plain("upper_quartile"), ".3f"),
    Column("highest", "highest", _plain("highest_ratio"), ".3f"),
    Column("personal", "personal %", _plain("personal"), ".2f"),
)

COLUMNS = {column.name: column for column in _ALL}
