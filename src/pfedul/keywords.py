"""Keyword arguments of the verbs of a federation, for editors and type checkers.

Written by `make docs` from `Settings` and `ForgetOptions`; do not edit.
"""

from pathlib import Path
from typing import Literal, TypedDict


class LaterKeywords(TypedDict, total=False):
    """Settings that may change later."""

    data_root: str | Path | None
    random_split: bool
    rounds: int
    min_replies: int
    max_samples: int | None
    dp_delta: float
    evaluate_every: int
    checkpoint_every: int
    device: str
    engine: Literal["auto", "inline", "processes", "flower-simulation"]
    workers: int | None


class SettingsKeywords(LaterKeywords, total=False):
    """Settings of a new run."""

    partition: str
    clients: int | None
    samples: int | None
    test_samples: int | None
    min_samples: int
    small_clients: Literal["error", "drop"]
    task: str
    head: str | None
    personalization: str
    local_epochs: int
    lr: float
    optimizer: Literal["sgd", "adam", "adamw"]
    schedule: Literal["constant", "cosine"]
    augment: Literal["none", "flip", "crop", "flip+crop"]
    momentum: float
    weight_decay: float
    batch_size: int
    participation: float
    max_update_norm: float | None
    clip_updates: float
    max_weight: float
    aggregation: str
    dp_clip: float | None
    dp_noise: float
    record: str
    fisher_beta: float
    fisher_noise: float
    psi_epsilon: float
    psi_sigma: float
    psi_delta: float
    seed: int
    plant_backdoor: str | None
    clusters: int
    precision: Literal["float32", "bfloat16"]


class ForgetKeywords(TypedDict, total=False):
    """Options of a removal."""

    method: str
    alpha: float
    correction: str
    strength: float | None
    step: float | None
    clip: float | None
    fraction: float | None
    toward: Literal["away", "init"] | None
    at_least: int
    scores: Literal["fisher", "uniform"]
    intensity: Literal["adaptive", "uniform"]
    layers: Literal["high", "low", "random", "all"] | None
    fisher_noise: float
    recalibration_epochs: int | None
    no_recalibration: bool
    recalibrate: bool
    affine: bool
    repair_rounds: int | None
    repair: Literal["ordinary", "distil"] | None
    allow_unchanged: bool
    forget_records: Literal["target", "all"]
    seed: int | None
