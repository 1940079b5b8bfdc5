"""How small a difference of MIA accuracies can be seen: what the number of samples allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import hypot, sqrt
from typing import Any


def mia_error(members: int, nonmembers: int) -> float:
    """Standard error of a balanced accuracy of 50 %, in points.

    >>> round(mia_error(200, 260), 1)
    2.4
    """
    return 100 * sqrt((1 / members + 1 / nonmembers) / 16)


def mia_errors(results: Iterable[Mapping[str, Any]]) -> list[float]:
    """That of each training."""
    return [mia_error(one["members"], one["nonmembers"]) for one in results]


def resolution(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence on the MIA accuracies of these groups; none where nothing was measured."""
    errors = [group["mia_errors"] for group in groups if group.get("mia_errors")]
    if not errors:
        return []
    single = _range([error for several in errors for error in several])
    mean = _range([hypot(*several) / len(several) for several in errors])
    return [
        f"MIA %: the number of samples alone gives one training a standard error of {single} "
        f"points, and the mean over trainings {mean}; smaller differences are not seen"
    ]


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"
