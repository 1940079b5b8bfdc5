"""What a cell branches from: the run, or for a method that needs another layout of training a
run of its own.

KNOT works on runs that were trained in clusters, from the first round on. So a comparison
on an ordinary run trains the same configuration once more, in clusters, with the same seed
and data. The cell is measured as all others are, but before and after are those of its own
base: what the layout costs before anything is forgotten is in its notes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pfedul.audit.models import personal_of
from pfedul.base.tensorfile import digest
from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import Clusters
from pfedul.protocol import OnStage
from pfedul.run.retrained import Recipe, open_recipe
from pfedul.settings import Settings
from pfedul.unlearn.base import Method

if TYPE_CHECKING:
    from pfedul.run.run import Run as Federation


@dataclass(frozen=True, eq=False)
class Base:
    """A checkpoint to branch from, and what the targets would keep of it."""

    run: Path
    settings: Settings
    stale: Mapping[str, Tensors]
    clusters: Clusters
    notes: tuple[str, ...] = ()


def needs_own_base(federation: Federation, method: Method) -> bool:
    """Whether the run was trained in another layout than the method needs."""
    return bool(method.needs.layout) and not federation.clusters.several


def branched_from(federation: Federation, method: Method, folder: Path) -> Path:
    """The run that cells of a method branch from, in the comparison of this folder."""
    if needs_own_base(federation, method):
        return _place(folder, method.needs.layout)
    return federation.store.path


def _place(folder: Path, layout: Mapping[str, Any]) -> Path:
    words = json.dumps(dict(layout), sort_keys=True)
    return folder / f"base-{digest(words.encode())[:10]}"


def base_for(
    federation: Federation,
    targets: Sequence[str],
    folder: Path,
    layout: Mapping[str, Any],
    on_stage: OnStage,
) -> Base:
    """The run's configuration in another layout, trained as far as it is not yet."""
    place = _place(folder, layout)
    clients, record = tuple(federation.clients), str(layout.get("record", "none"))
    recipe = Recipe("base", place, federation.settings.seed, clients, record, dict(layout))
    total = federation.rounds * len(clients)

    def told(replies: int) -> None:
        on_stage("own layout", replies, total)

    with closing(open_recipe(federation, recipe, told)) as made:
        stale = personal_of(made, targets)
        return Base(place, made.settings, stale, made.clusters, (_note(federation, made, layout),))


def _note(run: Federation, made: Federation, layout: Mapping[str, Any]) -> str:
    accuracies = [
        fmean(score.accuracy for score in one.measure().clients.values()) for one in (made, run)
    ]
    words = ", ".join(f"{name}={value}" for name, value in layout.items())
    return (
        f"branches from a run of its own, trained with {words}; its mean accuracy before anything "
        f"was forgotten is {accuracies[0]:.3f}, that of the run {accuracies[1]:.3f}"
    )
