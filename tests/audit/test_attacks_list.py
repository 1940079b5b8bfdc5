"""What must hold of every attack in the list: on nothing, on much, and in any order."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.signals import confidence, loss, margin

CLASSES = 4
MODELS = 6
FEW_DRAWS = {"draws": 200}


@dataclass(frozen=True)
class World:
    """Logits of members and others under unlearned and retrained models; all of label 0.

    The unlearned models know the members by `memory`; 0 means that nothing is left.
    """

    seed: int
    memory: float
    size: int = 40

    def logits(self, group, kind, memory=0.0, size=None):
        """What all models see in a sample, plus what each makes of it."""
        size = size or self.size
        shared = np.random.default_rng([self.seed, *group.encode()])
        own = np.random.default_rng([self.seed, *group.encode(), *kind.encode()])
        logits = shared.normal(size=(1, size, CLASSES)) + own.normal(
            0, 0.5, size=(MODELS, size, CLASSES)
        )
        logits[:, :, 0] += 2 * memory
        return logits

    @property
    def members(self):
        return self.logits("members", "unlearned", self.memory)

    @property
    def retrained_on_members(self):
        return self.logits("members", "retrained")

    @property
    def others(self):
        return self.logits("others", "unlearned")

    @property
    def retrained_on_others(self):
        return self.logits("others", "retrained")

    @property
    def population(self):
        return [self.logits("population", kind, size=400) for kind in ("unlearned", "retrained")]

    def shuffled(self, logits):
        return logits[:, np.random.default_rng(9).permutation(self.size)]


def labels(logits):
    return np.zeros(logits.shape[-2], dtype=int)


def every(signal, logits):
    return np.array([signal(part, labels(part)) for part in logits])


def first(signal, logits):
    return signal(logits[0], labels(logits))


def run_threshold(run, world, order):
    members, others = order(world.members), order(world.others)
    return run(first(loss, members), first(loss, others), world.seed, **FEW_DRAWS)


def run_logistic(run, world, order):
    members, others = order(world.members)[0], order(world.others)[0]
    return run(members, labels(members), others, labels(others), world.seed, **FEW_DRAWS)


def run_rmia(run, world, order):
    groups = (
        (order(world.members), order(world.retrained_on_members)),
        (order(world.others), order(world.retrained_on_others)),
        world.population,
    )
    return run(
        *((first(confidence, one), every(confidence, many)) for one, many in groups),
        seed=world.seed,
        **FEW_DRAWS,
    )


def two_kinds(signal):
    def call(run, world, order):
        kinds = (order(world.members), order(world.retrained_on_members))
        return run(*(every(signal, kind) for kind in kinds), seed=world.seed, **FEW_DRAWS)

    return call


def run_backdoor(run, world, order):
    # a memory of the trigger pulls towards class 0; the true labels are another
    logits = order(world.members)[0]
    logits[:, 0] += 50 * world.memory - 2
    return run(logits, labels(logits) + 1, trigger_class=0)


def run_distance(run, world, order):
    oracle, candidate = order(world.retrained_on_members)[0], order(world.members)[0]
    return run(oracle, candidate, seed=world.seed, **FEW_DRAWS)


RUNS = {
    "threshold": run_threshold,
    "logistic": run_logistic,
    "rmia": run_rmia,
    "ulira": two_kinds(margin),
    "klom": two_kinds(margin),
    "forgetting-quality": two_kinds(margin),
    "backdoor": run_backdoor,
    "distance": run_distance,
}
FROM_CURVES = {"relearn"}
"""Attacks whose input is no logits: they have tests of their own."""

LOGIT_ATTACKS = [attack for attack in ATTACKS if attack.name not in FROM_CURVES]
CHANCE_ATTACKS = [
    (attack, metric) for attack in LOGIT_ATTACKS for metric in attack.metrics if metric.best == 0.5
]


def figures(attack, memory, seed=0, order=lambda logits: logits, size=40):
    return RUNS[attack.name](attack.run, World(seed, memory, size), order)


def named(value):
    return value if isinstance(value, str) else value.name


def test_the_list_is_complete_and_says_what_it_must():
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert set(names) == RUNS.keys() | FROM_CURVES
    for attack in ATTACKS:
        assert attack.summary
        assert "arXiv" in attack.paper
        assert attack.unlearned >= 1
        assert attack.oracles >= 0
        assert attack.metrics
        for metric in attack.metrics:
            assert metric.low <= metric.best <= metric.high


@pytest.mark.parametrize("attack", LOGIT_ATTACKS, ids=named)
@pytest.mark.parametrize("memory", [0.0, 1.0, 30.0])
def test_figures_are_those_announced_and_within_their_range(attack, memory):
    found = figures(attack, memory)
    assert list(found) == [metric.name for metric in attack.metrics]
    for figure in found.values():
        low, high = figure.interval
        assert figure.metric.low <= low <= figure.value <= high <= figure.metric.high
        assert all(type(value) is float for value in (low, figure.value, high))


@pytest.mark.parametrize("attack", LOGIT_ATTACKS, ids=named)
def test_the_order_of_samples_does_not_matter(attack):
    world = World(3, 1.0)
    straight, mixed = figures(attack, 1.0, 3), figures(attack, 1.0, 3, world.shuffled)
    for name, figure in straight.items():
        assert mixed[name].value == pytest.approx(figure.value, abs=1e-9)
        assert mixed[name].interval == pytest.approx(figure.interval, abs=1e-9)


@pytest.mark.parametrize("attack", LOGIT_ATTACKS, ids=named)
def test_the_same_seed_gives_the_same_figures(attack):
    assert figures(attack, 1.0, 5) == figures(attack, 1.0, 5)


@pytest.mark.parametrize(
    ("attack", "metric"), CHANCE_ATTACKS, ids=[f"{a.name}-{m.name}" for a, m in CHANCE_ATTACKS]
)
def test_where_nothing_is_left_the_interval_holds_one_half(attack, metric):
    found = [figures(attack, 0.0, seed)[metric.name] for seed in range(60)]
    inside = sum(figure.interval[0] <= 0.5 <= figure.interval[1] for figure in found)
    # 95 % of 60 is 57; 52 or fewer would come about once in fifty
    assert inside >= 52
    assert abs(np.mean([figure.value for figure in found]) - 0.5) < 0.03


@pytest.mark.parametrize("attack", LOGIT_ATTACKS, ids=named)
def test_what_is_fully_remembered_is_found(attack):
    for figure in figures(attack, 30.0).values():
        metric = figure.metric
        if metric.name == "KLoM":
            assert figure.value == pytest.approx(metric.high, rel=0.2)
        elif metric.name == "forgetting quality":
            assert figure.value == 0
        elif metric.name == "agreement with oracle":
            assert figure.value < 0.7
        elif math.isinf(metric.high):
            assert figure.value > 1
        else:
            assert figure.value > 0.95


@pytest.mark.parametrize("attack", LOGIT_ATTACKS, ids=named)
def test_more_memory_is_further_from_the_best(attack):
    less, more = figures(attack, 0.0), figures(attack, 30.0)
    for name, figure in less.items():
        best = figure.metric.best
        assert abs(figure.value - best) < abs(more[name].value - best)
