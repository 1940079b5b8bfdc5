"""The level `instant`: what a removal left, for the price of a few forward passes.

A *witness* looks at the run before anything is changed, and again when the removal is done and
not yet committed. It keeps scores and the targets' samples in memory only; what stays are figures.
It needs no oracle: see `judge/leaks.py`. So it needs a split of the targets' samples that
was drawn at random, and enough of them; where that fails it says so in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pfedul.audit.ask.logits import logits_from_heads
from pfedul.audit.ask.probe import linear_probe
from pfedul.audit.ask.samples import about, drawn, labels_of, pooled, together
from pfedul.audit.ask.surfaces import SURFACES, features_of
from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.arrays import Array, Whole
from pfedul.audit.attacks.base import Labels, View
from pfedul.audit.judge.instant import Instant, Seen, compare
from pfedul.audit.judge.instant_verdict import DECIMALS, judged, removed_figure, row_data, unjudged
from pfedul.audit.judge.leaks import Draw
from pfedul.audit.judge.rules import Verdict
from pfedul.audit.state import State, served
from pfedul.base.randomness import numpy_generator
from pfedul.base.tensors import Tensors
from pfedul.base.threads import one_core
from pfedul.clusters.layout import Clusters
from pfedul.data.samples import TensorSamples
from pfedul.data.trigger import parse_backdoor
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench
from pfedul.run.run import Run
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION

LEVEL = "instant"

FEWEST = 10
"""Members, and non-members, of classes in which there are both."""
MOST = 1000
"""Members, and non-members; and of members at most twice as many: more hardly add power."""
MOST_FITTING, SHARE_FITTING = 500, 1 / 6
"""Training samples of the remaining clients on which the probe is fitted, and of how many there
are at most this share."""
MOST_MODELS = 2
"""Remaining clients whose models are asked, where each costs forward passes of its own."""


def refusal(run: Run, targets: Sequence[str]) -> Verdict | None:
    """Why this removal cannot be judged without oracles, and what to do; None if it can."""
    names, planted = " and ".join(targets), run.settings.plant_backdoor
    if run.personal_place.at_clients:
        return unjudged(
            f"The samples of {names} are on a machine of their own, so what was forgotten "
            "was not measured; audit a federation whose data are at hand (docs/audit.md)."
        )
    if not run.bench.random_split:
        return unjudged(
            f"It is not known whether training and test samples of {names} are a random split, so "
            "what was forgotten was not measured; if they are, say so with pfedul train RUN "
            "--random-split (in Python random_split=True), else use pfedul rehearse --level "
            "standard."
        )
    if planted is not None and parse_backdoor(planted).client in targets:
        return unjudged(
            f"A backdoor was planted in the training samples of {names} alone, so they differ from "
            "the test samples; use pfedul rehearse --level standard."
        )
    return None


@dataclass(frozen=True, eq=False)
class Exam:
    """The samples that both models are asked about, members first, and whose they are."""

    asked: TensorSamples
    whose: Whole
    draw: Draw
    fitting: TensorSamples
    models: Sequence[str]
    task: LearningTask = CLASSIFICATION

    @property
    def labels(self) -> Whole:
        """The labels that go with answers."""
        return labels_of(self.asked, self.task)

    @property
    def counts(self) -> dict[str, int]:
        members = int(self.draw.member.sum())
        others = len(self.draw.member) - members
        return {"members": members, "nonmembers": others, "fitting": len(self.fitting)}


def exam_of(run: Run, targets: Sequence[str]) -> Exam:
    """Draw the samples; the same ones for the same run."""
    seed, data = run.settings.seed, run.bench.data
    most = max(FEWEST, MOST // len(targets))
    outside = [drawn(data[target].test, most, seed, target) for target in targets]
    inside = [
        drawn(data[target].train, min(most, 2 * len(others)), seed, target)
        for target, others in zip(targets, outside, strict=True)
    ]
    asked = together([*inside, *outside])
    whose = np.repeat(np.tile(np.arange(len(targets)), 2), [len(p) for p in (*inside, *outside)])
    member = np.arange(len(asked)) < sum(map(len, inside))
    task = run.bench.training.task
    kept = _in_both(strata := _strata(labels_of(asked, task), whose), member)
    asked = TensorSamples(*asked.batch(torch.from_numpy(np.flatnonzero(kept))))
    remaining = [client for client in run.clients if client not in targets]
    parts = [data[client].train for client in remaining]
    fitting = min(MOST_FITTING, round(SHARE_FITTING * sum(map(len, parts))))
    return Exam(
        asked,
        whose[kept],
        Draw.of(strata[kept & member], strata[kept & ~member], seed),
        pooled(parts, fitting, seed),
        _models(run.bench, remaining, seed),
        task,
    )


def _strata(labels: Whole, whose: Whole) -> Whole:
    """Samples of one target and one class are one stratum."""
    strata: Whole = whose * (int(labels.max()) + 1) + labels
    return strata


def _in_both(strata: Whole, member: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Samples of strata that have members and non-members."""
    return np.isin(strata, np.intersect1d(strata[member], strata[~member]))


def _models(bench: Workbench, remaining: Sequence[str], seed: int) -> list[str]:
    """All remaining clients if they differ in their heads alone, else a few of them by lot."""
    names = bench.split.personal
    if bench.head is not None and all(name.startswith(f"{bench.head}.") for name in names):
        return list(remaining)
    order = numpy_generator(seed, "models to ask").permutation(len(remaining))
    return [remaining[place] for place in sorted(order[:MOST_MODELS])]


# Asking


def seen(bench: Workbench, exam: Exam, state: State) -> Seen:
    """Scores of one federation through every surface, by every attack that needs no oracle."""
    attacks = [a for a in ATTACKS if a.score and not a.needs_references and not a.two_sided]
    with one_core():
        views = _views(bench, exam, state)
    return {
        (surface, attack.name): np.stack([np.concatenate(attack.score(v, ())) for v in found])
        for surface, found in views.items()
        for attack in attacks
        if attack.score is not None
    }


def _views(bench: Workbench, exam: Exam, state: State) -> dict[str, list[View]]:
    """What the models of each surface answer; the samples pass a shared body only once."""
    there = {surface.name for surface in SURFACES if surface.missing(bench) is None}
    parts = {client: state.personal[client] for client in exam.models if "remaining" in there}
    parts |= state.stale if "stale" in there else {}
    logits = logits_from_heads(bench, state.shared, parts, exam.asked) if parts else {}
    found = {}
    if "remaining" in there:
        found["remaining"] = [logits[client] for client in exam.models]
    if "stale" in there:
        own = np.stack([logits[target] for target in state.stale])
        found["stale"] = [own[exam.whose, np.arange(len(exam.whose))]]
    if "shared" in there:
        whole = logits_from_heads(bench, state.shared, {"shared": {}}, exam.asked)
        found["shared"] = [whole["shared"]]
    if "probe" in there:
        found["probe"] = [_probe(bench, exam, state)]
    return {name: [_view(exam, one) for one in several] for name, several in found.items()}


def _probe(bench: Workbench, exam: Exam, state: State) -> Array:
    both = together([exam.fitting, exam.asked])
    features, labels = features_of(bench, state, both), labels_of(both)
    known = len(exam.fitting)
    return linear_probe(features[:known], labels[:known], features[known:], int(labels.max()) + 1)


def _view(exam: Exam, logits: Array) -> View:
    member, labels = exam.draw.member, exam.labels
    nothing = Labels(labels[member], labels[~member], labels[:0])
    return View("", logits[member], logits[~member], logits[:0], nothing)


# The witness


class Witness:
    """Looks at a run before a removal; called with what the removal made, it gives the evidence."""

    def __init__(self, run: Run, targets: Sequence[str]) -> None:
        self._run, self._bench, self._targets = run, run.bench, tuple(targets)
        self._clusters: Clusters = run.clusters
        self._refused = refusal(run, targets)
        if self._refused is None:
            self._look()

    def _look(self) -> None:
        run = self._run
        self._stale = {target: run.personal(target) for target in self._targets}
        try:
            self._exam = exam_of(run, self._targets)
            check_enough(self._exam, self._targets)
            self._before = seen(self._bench, self._exam, self._state(run.shared))
        except PfedulError as error:
            self._refused = unjudged(str(error))

    def _state(self, shared: Tensors) -> State:
        remaining = [client for client in self._run.clients if client not in self._targets]
        personal = {client: self._run.personal(client) for client in remaining}
        return served(self._clusters, shared, personal, self._stale)

    def __call__(self, shared: Tensors) -> dict[str, Any]:
        """The evidence; the remaining clients' personal tensors are read from the run."""
        if self._refused is not None:
            return evidence(self._refused)
        return self.of(self._state(shared))

    def of(self, state: State) -> dict[str, Any]:
        """The evidence on any federation of the remaining clients, such as an oracle."""
        if self._refused is not None:
            return evidence(self._refused)
        try:
            after = seen(self._bench, self._exam, state)
            found = compare(self._before, after, self._exam.draw)
        except PfedulError as error:  # never at the cost of the removal
            return evidence(unjudged(str(error)))
        counts = self._exam.counts
        known = {**counts, **{kind: about(counts[kind]) for kind in ("members", "nonmembers")}}
        return evidence(judged(found, " and ".join(self._targets)), found, known)


def check_enough(exam: Exam, targets: Sequence[str]) -> None:
    """Refuse so few samples that a test could not see anything."""
    counts = exam.counts
    for part, name in (("training", "members"), ("test", "nonmembers")):
        if counts[name] < FEWEST:
            raise PfedulError(
                f"Of {' and '.join(targets)} there are fewer than {FEWEST} {part} samples in "
                "classes that both parts have, too few to judge without oracles; use "
                "pfedul rehearse --level standard."
            )


def check_judgeable(run: Run, targets: Sequence[str]) -> None:
    """Refuse, in one sentence, a removal that cannot be judged without oracles."""
    refused = refusal(run, targets)
    if refused is not None:
        raise PfedulError(refused.sentence)
    check_enough(exam_of(run, targets), targets)


def evidence(
    verdict: Verdict, found: Instant | None = None, counts: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """What is kept: figures about the targets together, none of a single sample or client."""
    return {
        "level": LEVEL,
        "verdict": verdict.as_json(),
        "removed": None if found is None else removed_figure(found.left),
        "smallest_visible": None if found is None else round(found.smallest_visible, DECIMALS),
        "samples": dict(counts or {}),
        "tests": [] if found is None else [row_data(row) for row in found.rows],
    }
