"""Sums: what each client changed, added up over rounds as FedRecovery weighs it.

FedRecovery was published with every client's update of every round. Its weights,
||D^i||^2 / sum_i ||D^i||^2, have one denominator, so a running sum for each client
and one scalar for all are enough. They are kept in single precision (or that of the
model, if it is better) and added in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors, wide_type
from pfedul.records.base import (
    Record,
    Recorder,
    Update,
    WholeRound,
    every_file_of,
    int_tensor,
    round_residual,
)
from pfedul.store.paths import record_file
from pfedul.store.store import Store

TOTAL_FILE = "records/sums-total.safetensors"
_ROUNDS, _SQUARES = "(rounds)", "(squares)"


@dataclass(frozen=True)
class Total:
    """The number of rounds since the record began, and the sum of their squared norms."""

    rounds: int
    squares: float


class SumsRecorder(Recorder):
    """Adds ||D||^2 times the round's residual to the sum of each client that took part."""

    looks_back = True

    def look_back(self, update: Update, whole: WholeRound) -> None:
        own = update.change(self._names)
        residual = round_residual(whole.weight(update.client), own, whole.change)
        square, known = whole.square, read_sum(self._store, update.client)
        rounds, before = known or (0, {})
        total = {
            name: _added(before.get(name), tensor * square).to(wide_type(whole.before[name]))
            for name, tensor in residual.items()
        }
        file = record_file("sums", update.client)
        self._store.stage(file, {**total, _ROUNDS: int_tensor(rounds + 1)})

    def finish(self, whole: WholeRound) -> None:
        known = read_total(self._store) or Total(0, 0.0)
        squares = known.squares + whole.square
        row = torch.tensor(squares, dtype=torch.float64, device="cpu")
        self._store.stage(TOTAL_FILE, {_ROUNDS: int_tensor(known.rounds + 1), _SQUARES: row})


def _added(known: Tensor | None, more: Tensor) -> Tensor:
    return more if known is None else more + known


def read_sum(store: Store, client: str) -> tuple[int, Tensors] | None:
    """The rounds that a client took part in, and its sum; None if there was none."""
    tensors = store.find(record_file("sums", client))
    return None if tensors is None else (int(tensors.pop(_ROUNDS)), tensors)


def read_total(store: Store) -> Total | None:
    """None before the first round of the record."""
    row = store.find(TOTAL_FILE)
    return None if row is None else Total(int(row[_ROUNDS]), float(row[_SQUARES]))


SUMS = Record(
    name="sums",
    title="sums",
    summary="what each client changed, added up over rounds",
    memory="one number for each shared parameter and client",
    size=lambda of: of.clients * 4 * of.parameters,
    recorder=SumsRecorder,
    folders=("sums",),
    obsolete=every_file_of("sums"),
)
