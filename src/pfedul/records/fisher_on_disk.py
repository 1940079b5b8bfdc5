"""The Fisher record in a run folder: a file for each client, and their sum.

It is updated during training, with one client in memory at a time. Thanks to the sum a removal is
planned from two files, however many clients there are. The sum is updated by differences, and
computed again when a client is forgotten, so no rounding residue of the client is left in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Generator

from pfedul.aggregation import AGGREGATIONS
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors
from pfedul.records.base import Erasure, Keeping, Record, Recorder, Update, WholeRound
from pfedul.records.fisher import blended, fisher_noise, summed
from pfedul.split import Layer
from pfedul.store.paths import FISHER_RETAINED_FILE, FISHER_TOTAL_FILE, fisher_file
from pfedul.store.store import Store


class StoredFisher:
    """Reads the record of a run; a `FisherSource` for plans.

    A client whose values are not finite is left out (`broken`): runs of older versions took such
    updates, and one of them made the sum useless for everybody.
    """

    def __init__(self, store: Store, clients: Sequence[str], layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)
        self._store = store
        # Those with at least one round
        self.recorded = tuple(client for client in clients if store.has(fisher_file(client)))

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """Clients whose values are not finite; then neither is the sum."""
        if not self.recorded or _finite(self._store.read(FISHER_TOTAL_FILE)):
            return ()
        return tuple(client for client in self.recorded if not _finite(self.of(client)))

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(client for client in self.recorded if client not in self.broken)

    def of(self, client: str) -> Tensors:
        return self._store.read(fisher_file(client))

    def total(self) -> Tensors:
        if self.broken:
            return summed(map(self.of, self.clients))
        return self._store.read(FISHER_TOTAL_FILE)

    def total_without(self, targets: Sequence[str]) -> Tensors | None:
        """The sum over the remaining clients, computed again; None if they have no record."""
        remaining = [client for client in self.recorded if client not in targets]
        return summed(self.of(client) for client in remaining) if remaining else None


def _finite(tensors: Tensors) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())


class FisherRecorder(Recorder):
    """Brings the record up to date with the replies of one round (Eq. 5).

    Where an aggregation cuts values off, those of a client that were cut off count as zero, which
    is known at the end of the round.
    """

    def __init__(self, keeping: Keeping) -> None:
        super().__init__(keeping)
        self.looks_back = not AGGREGATIONS.parse(keeping.options.aggregation)[0].weighted
        self._layered = [name for layer in keeping.split.layers for name in layer.tensors]
        self._sums: Tensors = {}

    def add(self, update: Update) -> None:
        if not self.looks_back:
            self._add(update, {})

    def look_back(self, update: Update, whole: WholeRound) -> None:
        share = whole.shares[update.client]
        self._add(update, share if isinstance(share, dict) else {})

    @torch.no_grad()
    def _add(self, update: Update, shares: Tensors) -> None:
        """Take in a client's update, but not where its share is zero."""
        before, after = update.before, update.after
        squares = {name: (before[name] - after[name]).square_() for name in self._layered}
        squares |= {name: squares[name].mul_(shares[name] > 0) for name in shares.keys() & squares}
        if sigma := self._options.fisher_noise:
            seed = derive_seed(self._options.seed, "fisher-noise", update.number, update.client)
            squares = fisher_noise(squares, sigma, Generator().manual_seed(seed))
        name = fisher_file(update.client)
        known = self._store.find(name)
        fisher = blended(known, squares, self._options.fisher_beta)
        self._store.stage(name, fisher)
        self._add_to_sum(fisher, known)

    def _add_to_sum(self, fisher: Tensors, known: Tensors | None) -> None:
        if not self._sums:
            self._sums = self._known_total(fisher)
        for name, tensor in fisher.items():
            self._sums[name] += tensor
            if known is not None:
                self._sums[name] -= known[name]

    def _known_total(self, like: Tensors) -> Tensors:
        total = self._store.find(FISHER_TOTAL_FILE)
        if total is None:
            return {name: torch.zeros_like(t, dtype=torch.float64) for name, t in like.items()}
        return {name: tensor.to(torch.float64) for name, tensor in total.items()}

    def finish(self, _whole: WholeRound) -> None:
        """Stage the sum."""
        if self._sums:
            total = {name: tensor.clamp(min=0).float() for name, tensor in self._sums.items()}
            self._store.stage(FISHER_TOTAL_FILE, total)


def _obsolete(erasure: Erasure) -> list[str]:
    """The sums that contain the targets, except the one that `_renew` computes again."""
    remaining = [client for client in erasure.clients if client not in erasure.targets]
    if not any(erasure.store.has(fisher_file(client)) for client in remaining):
        return [FISHER_TOTAL_FILE, FISHER_RETAINED_FILE]
    return [FISHER_TOTAL_FILE] if erasure.everything else [FISHER_RETAINED_FILE]


def _renew(erasure: Erasure) -> None:
    fisher = StoredFisher(erasure.store, erasure.clients, erasure.split.layers)
    total = fisher.total_without(erasure.targets)
    if total is not None:
        kept = FISHER_RETAINED_FILE if erasure.everything else FISHER_TOTAL_FILE
        erasure.store.stage(kept, total)


FISHER = Record(
    name="fisher",
    title="Fisher",
    summary="running mean of each client's squared updates, and their sum",
    memory="one number for each shared parameter and client, and one sum",
    size=lambda of: (of.clients + 1) * 4 * of.parameters,
    recorder=FisherRecorder,
    folders=("fisher",),
    obsolete=_obsolete,
    renew=_renew,
)
