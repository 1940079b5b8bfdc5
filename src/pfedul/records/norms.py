"""Norms: how far each client's upload was from the shared tensors, round by round.

FedEraser was published with every client's update of every kept round; its replay reads only their
lengths, and the first round in full. Lengths are kept for each shared parameter tensor, from which
that of the whole update follows. `before` is measured from the tensors that the client was given
(the paper), `after` from the mean of its round (the published code).

A removal erases the lengths `after`: a forgotten client is in those means, and the distances of
many clients to one mean tell where it is. If something of it is left in the shared tensors, the
uploads of round 1 would tell what, so the whole record is erased.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors, norm, part_of
from pfedul.records.base import (
    Erasure,
    Record,
    Recorder,
    Update,
    WholeRound,
    changes,
    every_file_of,
)
from pfedul.store.paths import record_file
from pfedul.store.store import Store

FIRST = "norms-first"
"""The folder of what clients sent in the first round."""

_ROUNDS = "(rounds)"


@dataclass(frozen=True)
class Lengths:
    """The lengths of one client's updates: tensor -> one number for each of its rounds.

    `after` is empty once another client was forgotten.
    """

    rounds: tuple[int, ...]
    before: Tensors
    after: Tensors

    def at(self, number: int, against: str) -> dict[str, float]:
        """Each tensor's length in round `number`."""
        place = self.rounds.index(number)
        tensors = self.before if against == "before" else self.after
        return {name: float(values[place]) for name, values in tensors.items()}


class NormsRecorder(Recorder):
    """Adds a number to each tensor's row in every round that a client takes part in."""

    looks_back = True

    def add(self, update: Update) -> None:
        if update.number == 1:
            self._store.stage(record_file(FIRST, update.client), update.after)

    def look_back(self, update: Update, whole: WholeRound) -> None:
        name = record_file("norms", update.client)
        known = self._store.find(name)
        number = torch.tensor([update.number], dtype=torch.int64, device="cpu")
        new = {_ROUNDS: number, **_lengths("before", update.change(self._names))}
        new |= _lengths("after", changes(whole.after, update.after, self._names))
        self._store.stage(name, _joined(known, new) if known else new)


def _joined(known: Tensors, new: Tensors) -> Tensors:
    """With one more round; lengths that a removal has erased are not begun again."""
    return {key: torch.cat([rows, new[key]]) for key, rows in known.items()}


def _lengths(against: str, change: Tensors) -> dict[str, Tensor]:
    return {
        f"{against}/{name}": torch.tensor([norm({name: tensor})], dtype=torch.float64, device="cpu")
        for name, tensor in change.items()
    }


def read_lengths(store: Store, client: str) -> Lengths | None:
    """None for a client without a round since the record began."""
    rows = store.find(record_file("norms", client))
    if rows is None:
        return None
    rounds = tuple(int(number) for number in rows.pop(_ROUNDS))
    return Lengths(rounds, part_of(rows, "before"), part_of(rows, "after"))


def first_upload(store: Store, client: str) -> Tensors | None:
    """What a client sent in the first round, statistics included; None if it was not in it."""
    return store.find(record_file(FIRST, client))


def _survives(erasure: Erasure) -> bool:
    return erasure.clean and not erasure.everything


def _renew(erasure: Erasure) -> None:
    for client in set(erasure.clients) - set(erasure.targets) if _survives(erasure) else ():
        name = record_file("norms", client)
        rows = erasure.store.find(name)
        if rows is not None and part_of(rows, "after"):
            kept = {key: row for key, row in rows.items() if not key.startswith("after/")}
            erasure.store.stage(name, kept)


NORMS = Record(
    name="norms",
    title="norms",
    summary="lengths of each client's updates, tensor by tensor, and its upload of round 1",
    memory="two numbers for each shared tensor, client and round, and a copy of the shared "
    "tensors for each client of round 1",
    size=lambda of: of.clients * (4 * of.parameters + (16 * of.tensors + 8) * of.rounds),
    recorder=NormsRecorder,
    folders=("norms", FIRST),
    obsolete=lambda erasure: [] if _survives(erasure) else every_file_of("norms")(erasure),
    renew=_renew,
)
