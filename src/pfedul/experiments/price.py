"""What an experiment will cost, said before it begins: from a short timing, and from past cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean
from typing import Any

from pfedul.base.tensors import read_tensors
from pfedul.client import perform, scratch_of
from pfedul.data.samples import ClientData
from pfedul.engine import available_cores
from pfedul.experiments.cases import Case, Results, Shelf, Wanted
from pfedul.experiments.left import Left, left_of
from pfedul.experiments.sharing import Sharing
from pfedul.protocol import Task, Workbench
from pfedul.run.assembly import assemble, load_data
from pfedul.settings import Settings, from_mapping

ENOUGH = 64
"""Samples that the timing trains on, at the least, if a client has as many."""


@dataclass(frozen=True)
class Price:
    """What is left to do. `seconds` is an estimate for all cores together.

    `cases` are unfinished ones, `trainings` those of federations and of methods that branch from a
    training of their own. `untimed` are methods that no finished case tells the cost of: they come
    on top.
    """

    cases: int
    trainings: int
    oracles: int
    removals: int
    seconds: float
    untimed: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "untimed": list(self.untimed)}


def price_of(wanted: Wanted, shelf: Shelf, sharing: Sharing, how: Mapping[str, Any]) -> Price:
    """The price of what is missing; a training is timed once for each kind of federation."""
    known = shares([results for case, _ in wanted if (results := shelf.read(case))])
    missing = [(case, shelf.missing(case, names)) for case, names in wanted]
    unfinished = [(case, names) for case, names in missing if names]
    timed: dict[tuple[str, ...], float] = {}
    seconds = 0.0
    parts = _each_once(unfinished, sharing)
    for (case, _), left in zip(unfinished, parts, strict=True):
        kind = tuple(str(case.settings.get(name)) for name in ("data", "personalization"))
        if kind not in timed:
            timed[kind] = seconds_of_training(case, how)
        removals = sum(known.get(name, 0.0) for name in left.removals)
        seconds += timed[kind] * (left.training + left.oracles + left.bases + removals)
    return Price(
        cases=len(unfinished),
        trainings=sum(ceil(left.training) + ceil(left.bases) for left in parts),
        oracles=sum(ceil(left.oracles) for left in parts),
        removals=sum(len(left.removals) for left in parts),
        seconds=seconds,
        untimed=tuple(sorted({name for left in parts for name in left.removals} - known.keys())),
    )


def _each_once(unfinished: Wanted, sharing: Sharing) -> list[Left]:
    """What is left of each case; a training that several share is that of the first of them."""
    parts, trained, retrained = [], set(), set()
    for case, names in unfinished:
        left, oracles = left_of(case, names, sharing.run_of(case)), (case.federation, case.leaving)
        if case.federation in trained:
            left = replace(left, training=0.0)
        if oracles in retrained:
            left = replace(left, oracles=0.0)
        trained.add(case.federation)
        retrained.add(oracles)
        parts.append(left)
    return parts


def shares(results: Iterable[Results]) -> dict[str, float]:
    """CPU time of each method as a share of retraining, as far as finished cases tell."""
    every: dict[str, list[float]] = {}
    for one in results:
        retraining = fmean(row["cpu_seconds"] for row in one["oracles"])
        for name, row in one["methods"].items():
            if not row.get("failure"):
                every.setdefault(name, []).append(row["cpu_seconds"] / retraining)
    return {name: fmean(values) for name, values in every.items()}


def seconds_of_training(case: Case, how: Mapping[str, Any]) -> float:
    """About how long one training takes on all cores, from one epoch of one client."""
    settings = from_mapping({**case.settings, **how}, "the scale")
    bench = assemble(settings, load_data(settings, None), None)
    client = timed_client(bench.data)
    epochs = sum(len(data.train) for data in bench.data.values()) * settings.local_epochs
    of_client = _seconds_of_epoch(bench, client) / len(bench.data[client].train)
    return of_client * epochs * settings.rounds * settings.participation / _cores(settings)


def _seconds_of_epoch(bench: Workbench, client: str) -> float:
    scratch = scratch_of(bench)
    shared = read_tensors(scratch.model, bench.split.shared)
    personal = read_tensors(scratch.model, bench.split.personal)
    warm_up, timed = (Task("fit", number, epochs=1, steps=steps) for number, steps in _TRIES)
    perform(bench, scratch, warm_up, client, shared, personal)
    return perform(bench, scratch, timed, client, shared, personal).seconds


_TRIES = ((1, 1), (2, None))
"""The first batch of a process takes longer than all others."""


def timed_client(data: Mapping[str, ClientData]) -> str:
    """The smallest client with enough samples; the largest if none has."""
    sizes = {name: len(parts.train) for name, parts in data.items()}
    enough = [name for name, size in sizes.items() if size >= ENOUGH]
    return min(enough, key=sizes.__getitem__) if enough else max(sizes, key=sizes.__getitem__)


def _cores(settings: Settings) -> int:
    return settings.workers or available_cores()


def in_words(seconds: float) -> str:
    """
    >>> in_words(50), in_words(4000), in_words(200_000)
    ('about 1 minute', 'about 1.1 hours', 'about 2.3 days')
    """
    if seconds < 3600:
        minutes = max(1, round(seconds / 60))
        return f"about {minutes} minute{'s' if minutes != 1 else ''}"
    hours = seconds / 3600
    return f"about {hours:.1f} hours" if hours < 48 else f"about {hours / 24:.1f} days"


def sentence(price: Price, names: Sequence[str]) -> str:
    """What an experiment will cost, in a sentence or two."""
    if not price.cases:
        return f"Nothing is left to train for {', '.join(names)}."
    words = (
        f"To do in {price.cases} cases: {price.trainings} trainings, {price.oracles} retrained "
        f"without the target and {price.removals} removals. That takes {in_words(price.seconds)} "
        "on this machine"
    )
    if not price.untimed:
        return f"{words}."
    return f"{words}, and longer by {len(price.untimed)} methods that no finished case tells yet."
