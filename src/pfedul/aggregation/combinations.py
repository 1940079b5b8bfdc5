"""Settings of a round that exclude each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pfedul.aggregation import AGGREGATIONS
from pfedul.errors import PfedulError

OF_WEIGHTED_MEANS = {"sums", "psi"}
"""Records whose formulas hold for weighted means alone."""


class RoundSettings(Protocol):
    """The part of the settings that is looked at."""

    @property
    def aggregation(self) -> str: ...
    @property
    def max_weight(self) -> float: ...
    @property
    def dp_clip(self) -> float | None: ...
    @property
    def dp_noise(self) -> float: ...
    @property
    def clusters(self) -> int: ...
    @property
    def min_replies(self) -> int: ...
    @property
    def records(self) -> Sequence[str]: ...


def check_combination(settings: RoundSettings) -> None:
    """Refuse settings that contradict each other, or of which one would decide nothing."""
    if settings.dp_clip is not None or settings.dp_noise:
        _check_private(settings)
    elif not AGGREGATIONS.parse(settings.aggregation)[0].weighted:
        _check_alike(settings, f"With --aggregation {settings.aggregation}")


def _check_private(settings: RoundSettings) -> None:
    if settings.dp_clip is None or not settings.dp_noise:
        raise PfedulError("Differential privacy needs both --dp-clip and --dp-noise; give both.")
    if settings.aggregation != "mean" or settings.clusters > 1:
        raise PfedulError(
            "Differential privacy is for the mean of all clients; leave out --aggregation and "
            "--clusters, or --dp-clip and --dp-noise."
        )
    if settings.min_replies > 1:
        raise PfedulError(
            "With --dp-clip chance decides how many clients a round has, and it may be none; "
            "leave out --min-replies."
        )
    _check_alike(settings, "With --dp-clip")


def _check_alike(settings: RoundSettings, when: str) -> None:
    if settings.max_weight < 1:
        raise PfedulError(
            f"{when} every client counts alike, so --max-weight decides nothing; leave it out."
        )
    odd = [name for name in settings.records if name in OF_WEIGHTED_MEANS]
    if odd:
        raise PfedulError(
            f"{when} a round is no weighted mean, which the record {odd[0]} is about; "
            "leave that record out."
        )
