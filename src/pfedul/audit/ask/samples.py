"""The samples that an audit asks models about, drawn once and the same for every model.

*Members* are training samples of the targets, *non-members* their test samples, from
the same distribution; the *population* of RMIA are test samples of the remaining clients.
All are held in memory, at most so many of each: a few thousand are enough for
intervals that are narrower than the spread between retrained models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pfedul.audit.attacks.arrays import Array, Whole
from pfedul.audit.attacks.base import Labels, View
from pfedul.base.inputs import joined
from pfedul.base.randomness import numpy_generator, random_stream
from pfedul.data.backdoor import trigger_value, triggered
from pfedul.data.samples import ClientData, Samples, TensorSamples
from pfedul.data.trigger import Backdoor
from pfedul.errors import PfedulError
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION
from pfedul.tasks.sequences import IGNORED

MOST_MEMBERS = 1000
"""Of all targets together; of non-members as many."""
MOST_POPULATION = 2000
MOST_FITTING = 4000
"""For the probe, which is fitted on training samples of the remaining clients."""
MOST_OWN = 200
"""Of each remaining client, for its own model: training samples and test samples."""

FEWEST = 4
"""Members, and non-members: attacks are fitted on one half and tried on the other."""


@dataclass(frozen=True, eq=False)
class AuditSamples:
    """All samples of an audit. Those of the targets are by target, in a fixed order.

    `triggered` is the population with the trigger that a target held alone, if one did.
    """

    members: Mapping[str, TensorSamples]
    nonmembers: Mapping[str, TensorSamples]
    population: TensorSamples
    fitting: TensorSamples
    own_train: Mapping[str, TensorSamples]
    own_test: Mapping[str, TensorSamples]
    backdoor: Backdoor | None = None
    triggered: TensorSamples | None = None
    task: LearningTask = CLASSIFICATION
    asked: TensorSamples = field(init=False)
    labels: Labels = field(init=False)

    def __post_init__(self) -> None:
        sets = together(self.members.values()), together(self.nonmembers.values()), self.population
        object.__setattr__(self, "asked", together(sets))
        object.__setattr__(self, "labels", Labels(*map(self.labels_of, sets)))

    def labels_of(self, samples: TensorSamples) -> Whole:
        """The labels that go with answers to these samples."""
        return labels_of(samples, self.task)

    def view(self, name: str, logits: Array) -> View:
        """The answers to `asked`, cut into the three sets."""
        inside = len(self.labels.members)
        outside = inside + len(self.labels.nonmembers)
        members, nonmembers = logits[:inside], logits[inside:outside]
        return View(name, members, nonmembers, logits[outside:], self.labels)

    def counts(self) -> dict[str, int]:
        """How many samples of each kind there are; of the targets about how many."""
        return {
            "members": about(len(self.labels.members)),
            "nonmembers": about(len(self.labels.nonmembers)),
            "population": len(self.population),
            "retain": sum(map(len, self.own_train.values())),
            "test": sum(map(len, self.own_test.values())),
        }


def about(count: int) -> int:
    """To one digit: evidence stays when its target is forgotten, and need not tell its size.

    >>> about(137), about(45), about(7)
    (100, 40, 7)
    """
    return int(float(f"{count:.0e}"))


def draw_samples(
    targets: Mapping[str, ClientData],
    remaining: Mapping[str, ClientData],
    seed: int,
    backdoor: Backdoor | None = None,
    task: LearningTask = CLASSIFICATION,
) -> AuditSamples:
    """The samples for these targets; the same ones for the same seed."""
    most = max(FEWEST, MOST_MEMBERS // len(targets))
    own = max(1, min(MOST_OWN, 10 * MOST_OWN // len(remaining)))
    population = pooled([d.test for d in remaining.values()], MOST_POPULATION, seed)
    seen = None
    if backdoor is not None and backdoor.client in targets:
        value = trigger_value(targets[backdoor.client].train)
        seen = triggered(population, backdoor, value)
    check_enough(targets)
    return AuditSamples(
        members={name: drawn(data.train, most, seed, name) for name, data in targets.items()},
        nonmembers={name: drawn(data.test, most, seed, name) for name, data in targets.items()},
        population=population,
        fitting=pooled([d.train for d in remaining.values()], MOST_FITTING, seed),
        own_train={name: drawn(d.train, own, seed, name) for name, d in remaining.items()},
        own_test={name: drawn(d.test, own, seed, name) for name, d in remaining.items()},
        backdoor=None if seen is None else backdoor,
        triggered=seen,
        task=task,
    )


def check_enough(targets: Mapping[str, ClientData]) -> None:
    """Refuse targets with so few samples that no attack can be fitted and tried on them."""
    train = sum(len(data.train) for data in targets.values())
    test = sum(len(data.test) for data in targets.values())
    for part, count in (("training", train), ("test", test)):
        if count < FEWEST:
            raise PfedulError(
                f"The targets have {count} {part} samples and an audit needs {FEWEST} at "
                "the least; there is no way to audit this removal."
            )


def pooled(parts: Sequence[Samples], most: int, seed: int) -> TensorSamples:
    share = max(1, -(-most // len(parts)))
    return together([drawn(part, share, seed, f"pool {place}") for place, part in enumerate(parts)])


def drawn(samples: Samples, most: int, seed: int, place: str) -> TensorSamples:
    """All of the samples, or `most` of them by chance, in memory."""
    indices = np.arange(len(samples))
    if len(samples) > most:
        indices = np.sort(numpy_generator(seed, "exam", place).permutation(len(samples))[:most])
    with random_stream(seed, "exam", place):  # a Dataset may transform at random
        return TensorSamples(*samples.batch(torch.from_numpy(indices)))


def together(parts: Iterable[TensorSamples]) -> TensorSamples:
    """Samples of several parts, one after the other."""
    known = list(parts)
    return TensorSamples(joined([p.x for p in known]), joined([p.y for p in known], IGNORED))


def labels_of(samples: TensorSamples, task: LearningTask = CLASSIFICATION) -> Whole:
    """Labels as attacks want them."""
    return task.labels(samples.y).numpy().astype(np.int64)
