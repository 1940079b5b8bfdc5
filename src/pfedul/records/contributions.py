"""Contributions: what each client has added to the shared parameters, summed over all rounds.

S_u is the sum over rounds of w_u * (local - global): client u's own weighted updates, with
nothing of another client in it. `local - global` is what was aggregated: an update that was too
long is in it as it was shortened. With the tensors that the record began with (`base`),

    theta = base + sum over all clients of S_u

holds after every round. Without the targets U, the same updates of the others would have been
weighted by n_u / (N - n_U) instead of n_u / N. Summed over rounds that is a factor for each
client: `rescaling`. It is exact where U had the same share in all rounds that u took part in,
and a mean over those rounds elsewhere: one number for each parameter cannot hold more.

A trimmed mean or a median has another w_u for each value: 0 where u was cut off. Then the sums of
these shares are kept beside S_u, and the factor is another one for each value too: the rounds,
divided by the rounds that were not the targets'. Noise that the server added belongs to `base`.

A removal that takes the targets out completely rescales what is left (`Erasure.excluded`), and
then adds what its repair rounds added. Rounds of repair are no rounds of training: a later removal
rescales them with the factor of the others. Any
other change of the shared tensors ends the record: the sums of the others, the initial tensors and
the result would together give away what the targets contributed. The next round begins it again.

In a run with clusters each of them has a `base` of its own, and all of this holds of each cluster:
its members, their weights, its shared tensors.

It also ends where a client took part in two or three rounds in which the targets' shares differed.
Such a sum is so simple that the lengths of its updates tell how its rounds were weighted, and so
how many samples the targets had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from pfedul.aggregation.base import Share
from pfedul.aggregation.weights import BY_SAMPLES, Weighing
from pfedul.base.tensors import Tensors, wide_type
from pfedul.clusters.layout import ONE_CLUSTER, Clusters
from pfedul.records.base import (
    Erasure,
    Record,
    Recorder,
    Update,
    WholeRound,
    change,
    every_file_of,
    int_tensor,
)
from pfedul.store.paths import record_file
from pfedul.store.store import Store
from pfedul.store.tables import participation, read_members

NAME = "contributions"
SHARES = "contributions-shares"
"""The folder of clients' shares, where they differ from value to value."""

BASE_FILE = "records/contributions-base.safetensors"
_ROUND = "(round)"


class ContributionsRecorder(Recorder):
    """Adds the weighted update of every client that took part to its sum."""

    looks_back = True

    def look_back(self, update: Update, whole: WholeRound) -> None:
        share = whole.shares[update.client]
        if isinstance(share, dict):
            self._add_shares(update.client, {name: share[name] for name in self._names})
        known, total = contribution(self._store, update.client) or {}, Tensors()
        for name in self._names:  # rounded one by one: all in double precision take twice the time
            moved = change(update.before[name], update.after[name])
            moved.mul_(share[name] if isinstance(share, dict) else share)
            if name in known:
                moved.add_(known[name])
            total[name] = moved.to(wide_type(update.before[name]))
        self._store.stage(record_file(NAME, update.client), total)

    def _add_shares(self, client: str, shares: Tensors) -> None:
        known = _shares(self._store, client)
        total = {n: (t + known[n] if known else t).float() for n, t in shares.items()}
        self._store.stage(record_file(SHARES, client), total)

    def finish(self, whole: WholeRound) -> None:
        known = self._store.find(BASE_FILE)
        if known is None:
            known = {name: whole.before[name] for name in whole.parameters}
            known[_ROUND] = int_tensor(whole.number - 1)
        elif not whole.noise:
            return
        noisy = {n: (known[n] + t).to(known[n].dtype) for n, t in whole.noise.items()}
        self._store.stage(BASE_FILE, {**known, **noisy})


def contribution(store: Store, client: str) -> Tensors | None:
    """S_u; None for a client without a round since the record began."""
    return store.find(record_file(NAME, client))


def _shares(store: Store, client: str) -> Tensors:
    """The client's shares, added up over rounds; empty where they are numbers."""
    return store.find(record_file(SHARES, client)) or {}


def _rounded(sums: Tensors, like: Tensors) -> Tensors:
    return {name: tensor.to(wide_type(like[name])) for name, tensor in sums.items()}


def _base(store: Store) -> Tensors:
    """The shared parameters that the record began with, of all clusters."""
    return {name: tensor for name, tensor in store.read(BASE_FILE).items() if name != _ROUND}


def began_after(store: Store) -> int | None:
    """The round after which the record began; None before its first round."""
    return int(store.read(BASE_FILE)[_ROUND]) if store.has(BASE_FILE) else None


@torch.no_grad()
def without(
    store: Store,
    clients: Sequence[str],
    targets: Sequence[str],
    weighing: Weighing = BY_SAMPLES,
    clusters: Clusters = ONE_CLUSTER,
) -> Tensors:
    """The shared parameters without the targets, of each cluster that one of them is in."""
    result: Tensors = {}
    for number, members in clusters.with_any(targets, clients).items():
        base = clusters.view(_base(store), number)
        own = _without(store, base, members, targets, weighing)
        result = clusters.put(result, number, own)
    return result


def _without(
    store: Store,
    base: Tensors,
    clients: Sequence[str],
    targets: Sequence[str],
    weighing: Weighing,
) -> Tensors:
    """base + the sum over the remaining of S_u * their factor, in double precision."""
    total = {name: tensor.double() for name, tensor in base.items()}
    factors = _factors(store, clients, targets, weighing)
    for client in clients:
        own = None if client in targets else contribution(store, client)
        for name, tensor in (own or {}).items():
            factor = factors[client]
            if isinstance(factor, dict):
                total[name].add_(tensor * factor[name])
            else:
                total[name].add_(tensor, alpha=factor)
    return total


def _factors(
    store: Store, clients: Sequence[str], targets: Sequence[str], weighing: Weighing
) -> Mapping[str, Share]:
    """How much more each remaining client would have added without the targets."""
    if _by_values(store, clients):
        return dict.fromkeys(clients, _by_value(store, clients, targets))
    members = read_members(store.ledger)
    everybody = {client: members[client].train_samples for client in clients}
    # Of who only took part in repair, and of all where every client could have taken part
    alone = rescaling([everybody], targets, weighing)
    if weighing.equal:
        return alone
    return alone | rescaling(_rounds(store, clients), targets, weighing)


def _rounds(store: Store, clients: Sequence[str]) -> list[dict[str, int]]:
    """Which of these clients took part in each round since the record began, with samples."""
    rounds = participation(store.ledger, began_after(store) or 0)
    among = [{client: n for client, n in one.items() if client in clients} for one in rounds]
    return [samples for samples in among if samples]


def rescaling(
    rounds: Iterable[Mapping[str, int]],
    targets: Sequence[str],
    weighing: Weighing = BY_SAMPLES,
) -> dict[str, float]:
    """How much more each remaining client would have weighed without the targets.

    `rounds` has the samples of those who took part in each round. The factor of a client is
    its summed weight without the targets, divided by its summed weight with them.

    >>> rescaling([{"ann": 1, "bob": 3}, {"bob": 3}], targets=["ann"])
    {'bob': 1.1428571428571428}
    """
    with_them: dict[str, float] = {}
    without_them: dict[str, float] = {}
    for samples in rounds:
        remaining = {client: n for client, n in samples.items() if client not in targets}
        for sums, group in ((with_them, samples), (without_them, remaining)):
            weights = weighing.weights(group)
            total = sum(weights.values())
            for client in remaining:
                sums[client] = sums.get(client, 0.0) + weights[client] / total
    return {client: without_them[client] / with_them[client] for client in with_them}


FEWEST_MIXED = 4
"""Rounds of one client with different weights from which their number hides the weights."""


def tells_weights(rounds: Iterable[Mapping[str, int]], targets: Sequence[str]) -> bool:
    """Whether the sum of a remaining client gives away how its few rounds were weighted.

    >>> tells_weights([{"ann": 1, "bob": 3}, {"bob": 3}], targets=["ann"])
    True
    >>> tells_weights([{"ann": 1, "bob": 3}] * 2, targets=["ann"])
    False
    """
    shares = _shares_met(rounds, targets).values()
    return any(len(own) < FEWEST_MIXED and len(set(own)) > 1 for own in shares)


def _shares_met(
    rounds: Iterable[Mapping[str, int]], targets: Sequence[str]
) -> dict[str, list[float]]:
    """For each remaining client, the targets' share in every round that it took part in."""
    shares: dict[str, list[float]] = {}
    for samples in rounds:
        share = sum(samples.get(target, 0) for target in targets) / sum(samples.values())
        for client in samples.keys() - set(targets):
            shares.setdefault(client, []).append(share)
    return shares


def rescaled_by_means(
    store: Store, clients: Sequence[str], targets: Sequence[str], weighing: Weighing = BY_SAMPLES
) -> bool:
    """Whether the factor of a remaining client is a mean over rounds that differed."""
    if weighing.equal or _by_values(store, clients):
        return False
    met = _shares_met(_rounds(store, clients), targets)
    return any(len(set(own)) > 1 for own in met.values())


def _by_values(store: Store, clients: Sequence[str]) -> bool:
    """Whether shares differ from value to value.

    After a removal those of the others would give away where the targets had been kept, so the
    record does not survive one.
    """
    return any(store.has(record_file(SHARES, client)) for client in clients)


def _by_value(store: Store, clients: Sequence[str], targets: Sequence[str]) -> Tensors:
    """For each value: all rounds, divided by those that were not the targets'.

    Where the targets alone were kept nothing is left to be multiplied.
    """
    everybody = _added_up(_shares(store, client) for client in clients)
    own = _added_up(_shares(store, client) for client in targets)
    factors = {}
    for name, rounds in everybody.items():
        rest = rounds - own[name] if own else rounds
        factors[name] = torch.where(rest > _ROUNDING, rounds / rest, 1.0)
    return factors


def _added_up(parts: Iterable[Tensors]) -> Tensors:
    total: Tensors = {}
    for part in parts:
        for name, tensor in part.items():
            total[name] = total[name] + tensor if name in total else tensor.double()
    return total


_ROUNDING = 1e-4
"""Sums of shares are kept in single precision; a share is a thousandth of a round, or more."""


def _survives(erasure: Erasure) -> bool:
    if not erasure.excluded or erasure.everything or _by_values(erasure.store, erasure.clients):
        return False
    if erasure.weighing.equal:  # every round was weighted alike
        return True
    groups = _groups(erasure).values()
    return not any(tells_weights(_rounds(erasure.store, one), erasure.targets) for one in groups)


def _groups(erasure: Erasure) -> dict[int, list[str]]:
    return erasure.clusters.with_any(erasure.targets, erasure.clients)


def _renew(erasure: Erasure) -> None:
    store, targets = erasure.store, erasure.targets
    if not _survives(erasure) or not store.has(BASE_FILE):
        return
    for group in _groups(erasure).values():
        factors = _factors(store, group, targets, erasure.weighing)
        for client in set(group) - set(targets):
            _renew_one(erasure, client, factors[client])


def _renew_one(erasure: Erasure, client: str, factor: Share) -> None:
    """The client's sum as it would be without the targets, and what repair added to it."""
    store = erasure.store
    own, added = contribution(store, client) or {}, erasure.added(client)
    total = _times(own, factor)
    for name, tensor in added.items():
        total[name] = total[name] + tensor if name in total else tensor
    if total:
        like = erasure.clusters.of(_base(store), client)
        store.stage(record_file(NAME, client), _rounded(total, like))


def _times(tensors: Tensors, factor: Share) -> Tensors:
    """In double precision."""
    by_value = factor if isinstance(factor, dict) else dict.fromkeys(tensors, factor)
    return {name: tensor.double() * by_value[name] for name, tensor in tensors.items()}


CONTRIBUTIONS = Record(
    name=NAME,
    title="contributions",
    summary="the sum of each client's own weighted updates",
    memory="one number for each shared parameter and client, and one copy of the shared tensors; "
    "two numbers with --aggregation trimmed-mean or median",
    size=lambda of: (of.clients + of.clusters) * 4 * (of.parameters // of.clusters),
    recorder=ContributionsRecorder,
    folders=(NAME, SHARES),
    obsolete=lambda erasure: [] if _survives(erasure) else every_file_of(NAME)(erasure),
    renew=_renew,
    with_clusters=True,
)
