"""Psi: a bound on how far each client moved the shared parameters, and where to go back to.

SIFU's Psi(n, i) adds up the length of client i's residual of every round until model n.
The last model in which it is at most Psi* is the one to go back to. Published code keeps
a model for each client and rewrites it in every round; but Psi never falls, so a client's
model is final once Psi has passed Psi*: one model for each round in which a client passed
is enough, and until then it is the current one.

Weights are those of the round as it was, among its participants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pfedul.base.tensors import Tensors, norm
from pfedul.records.base import (
    Keeping,
    Record,
    Recorder,
    Update,
    WholeRound,
    every_file_of,
    int_tensor,
    round_residual,
)
from pfedul.records.options import RecordOptions
from pfedul.store.paths import INIT_FILE, record_file
from pfedul.store.store import Store

BEGIN_FILE = "records/psi-begin.safetensors"
MODELS = "psi-models"
_ROUNDS, _PSI, _BACK_TO = "rounds", "psi", "back_to"


@dataclass(frozen=True)
class Psi:
    """One client's Psi after each round that it took part in.

    `back_to` is the round whose model was the last with Psi <= Psi*, or None while the
    current one is. Nothing is added once it is set.
    """

    rounds: tuple[int, ...]
    values: tuple[float, ...]
    back_to: int | None


def psi_bound(options: RecordOptions) -> float:
    """Psi* = epsilon sigma / sqrt(2 ln(1.25 / delta))."""
    scale = math.sqrt(2 * math.log(1.25 / options.psi_delta))
    return options.psi_epsilon * options.psi_sigma / scale


class PsiRecorder(Recorder):
    """Adds the norm of the round's residual for each client that has not passed Psi*."""

    looks_back = True

    def __init__(self, keeping: Keeping) -> None:
        super().__init__(keeping)
        self._bound = psi_bound(keeping.options)
        self._passed = False

    def look_back(self, update: Update, whole: WholeRound) -> None:
        known = read_psi(self._store, update.client) or Psi((), (), None)
        if known.back_to is not None:
            return
        own = update.change(self._names)
        step = norm(round_residual(whole.weight(update.client), own, whole.change))
        value = (known.values[-1] if known.values else 0.0) + step
        back_to = whole.number - 1 if value > self._bound else None
        self._passed |= back_to is not None
        new = Psi((*known.rounds, whole.number), (*known.values, value), back_to)
        self._store.stage(record_file("psi", update.client), _written(new))

    def finish(self, whole: WholeRound) -> None:
        if not self._store.has(BEGIN_FILE):
            self._store.stage(BEGIN_FILE, {_ROUNDS: int_tensor(whole.number - 1)})
        if self._passed and whole.number > 1:  # the initial model is kept anyway
            self._store.stage(record_file(MODELS, str(whole.number - 1)), whole.before)


def _written(psi: Psi) -> Tensors:
    return {
        _ROUNDS: torch.tensor(psi.rounds, dtype=torch.int64, device="cpu"),
        _PSI: torch.tensor(psi.values, dtype=torch.float64, device="cpu"),
        _BACK_TO: int_tensor(-1 if psi.back_to is None else psi.back_to),
    }


def read_psi(store: Store, client: str) -> Psi | None:
    """None for a client without a round since the record began."""
    row = store.find(record_file("psi", client))
    if row is None:
        return None
    back_to = int(row[_BACK_TO])
    rounds, values = tuple(row[_ROUNDS].tolist()), tuple(row[_PSI].tolist())
    return Psi(rounds, values, None if back_to < 0 else back_to)


def begun_after(store: Store) -> int | None:
    """The round after which the record began: 0, or that of an earlier removal."""
    return int(store.read(BEGIN_FILE)[_ROUNDS]) if store.has(BEGIN_FILE) else None


def model_after(store: Store, number: int) -> Tensors:
    """The shared tensors after a round that a client must go back to."""
    return store.read(record_file(MODELS, str(number)) if number else INIT_FILE)


PSI = Record(
    name="psi",
    title="psi",
    summary="how far each client moved the shared parameters, and models to go back to",
    memory="one number for each client and round, and one copy of the shared tensors for each "
    "round in which a client passed the bound",
    size=lambda of: of.clients * 16 * of.rounds + min(of.clients, of.rounds) * 4 * of.parameters,
    recorder=PsiRecorder,
    folders=("psi",),
    obsolete=every_file_of("psi"),
)
