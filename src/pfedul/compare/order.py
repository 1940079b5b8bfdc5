"""What the process of a cell is told, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import AuditSamples
from pfedul.audit.judge.findings import Verdict
from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import Clusters
from pfedul.settings import Settings
from pfedul.unlearn.options import ForgetOptions


@dataclass(frozen=True, eq=False)
class Order:
    """A cell to work on: the checkpoint it branches from, and what it is judged beside.

    `key` names its folder, `label` is how it was asked for; `options` are the cell's, a budget
    filled in.

    `bench` is pickled apart: it may hold functions of the user's script. `stale` are the
    personal tensors that the targets would keep, `clusters` those of the checkpoint.
    """

    key: str
    label: str
    options: ForgetOptions
    run: Path
    folder: Path
    targets: tuple[str, ...]
    settings: Settings
    bench: bytes
    stale: Mapping[str, Tensors]
    exam: AuditSamples
    oracles: tuple[Answers, ...]
    untouched: Answers
    held_out: tuple[Verdict, ...]
    clusters: Clusters
    notes: tuple[str, ...] = ()


Result = dict[str, Any]
"""What a cell found, as plain data; `failure` has the sentence if the method came to nothing."""
