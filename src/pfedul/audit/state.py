"""A federation as an audit sees it: tensors, and the personal part that a target would attach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfedul.client import Task, Workbench, perform, scratch_of
from pfedul.personalization import Recalibration
from pfedul.tensors import Tensors, read_tensors

if TYPE_CHECKING:
    from pfedul.federation import Federation

MOST_EPOCHS = 50
"""For the head that a target fits on an oracle; more epochs than that change it no more."""


@dataclass(frozen=True, eq=False)
class State:
    """Shared tensors, the remaining clients' personal ones, and those of the targets.

    `stale` is what a target attaches to the shared tensors: the personal part that it
    kept. An oracle has never had the target, so there it is one that the target fits
    on its own samples, with the oracle's shared tensors frozen: what its head alone
    would give away.
    """

    shared: Tensors
    personal: Mapping[str, Tensors]
    stale: Mapping[str, Tensors]


def state_of(
    federation: Federation, remaining: Sequence[str], stale: Mapping[str, Tensors]
) -> State:
    """The tensors of a federation as they are now."""
    personal = {client: federation.personal(client) for client in remaining}
    return State(dict(federation.shared), personal, stale)


def fitted_heads(
    bench: Workbench, shared: Tensors, targets: Sequence[str], epochs: int, seed: int
) -> dict[str, Tensors]:
    """The personal part that each target would fit to shared tensors that never knew it."""
    how = Recalibration(epochs=min(epochs, MOST_EPOCHS), affine=True)
    task = Task("recalibrate", 0, recalibration=how, seed=seed)
    scratch = scratch_of(bench)
    initial = read_tensors(bench.build_model(), bench.split.personal)
    return {
        target: perform(bench, scratch, task, target, shared, initial).personal
        for target in targets
    }
