"""The settings that records read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RecordOptions:
    """The settings of a run that its records depend on (see `Settings`)."""

    fisher_beta: float
    fisher_noise: float
    psi_epsilon: float
    psi_sigma: float
    psi_delta: float
    aggregation: str
    seed: int
