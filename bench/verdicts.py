"""How often verdicts are right: whole audits on simulated models for which the truth is known.

    python bench/verdicts.py [--audits 100] [--oracles 2 4 8] [--samples 40 150 500]
    python bench/verdicts.py --instant [--audits 200] [--samples 30 60 130 300 1000]

A model's score of a sample is the sample's difficulty, the same for all models, plus noise
of the model and of each view, plus, on members, what the model remembers of them, plus a
shift by which one training differs from the next. `between` is that shift's standard
deviation in AUC. Every audit has three surfaces and three attacks, nine tests in all.
The untouched model reaches an AUC of about 0.65 to 0.75.

It prints shares of audits, in percent, and the smallest leak that the best test could see,
in AUC. Candidates and what is counted of them:

- retrained: an oracle. Forgotten; not enough evidence; accused; accused if only sampling error
  were considered; forgotten if what is left had to be bounded on each surface, not only overall.
- half left, a third left: the untouched model with less of what it remembered. Forgotten; accused.
- old head half: half is left through that surface, nothing elsewhere. Forgotten; accused.
- all left: the untouched model. Forgotten; not forgotten.
- none before: an oracle, where the untouched model remembered nothing. Nothing measurable; accused.
- less before: an oracle, where it remembered 0.6 of the usual. Nothing measurable; forgotten.

With 100 audits a share of 5 % has an error
of about 4 points, and rows share their seeds.

With --instant it simulates the level without oracles: so many non-members, twice as many members,
at most 1,000, in ten classes that differ in difficulty. The untouched model remembers so much that
its AUCs are as printed. Shares are of a removal that left nothing, a third, half, or all of it, one
that overshoots by a third, and one from a model that remembered nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pfedul.audit.judge.instant import Instant, compare
from pfedul.audit.judge.leaks import Draw
from pfedul.audit.judge.paired_test import PairedTest, overall_removed, paired_test
from pfedul.audit.judge.placements import Scores
from pfedul.audit.judge.rules import (
    FORGOTTEN,
    MOST_LEFT,
    NOT_ENOUGH,
    NOT_FORGOTTEN,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    Finding,
    Verdict,
    VerdictRules,
    accuses,
)

Array = NDArray[np.float64]

VIEWS = {"remaining": 5, "stale": 1, "probe": 1}
REMEMBERED = {"remaining": 0.6, "stale": 1.0, "probe": 0.8}
ATTACKS = ("threshold", "logistic", "rmia")
TESTS = len(VIEWS) * len(ATTACKS)
MEMORY = 1.0
MODEL_NOISE, VIEW_NOISE, LOGISTIC_NOISE = 0.5, 0.5, 0.5
AUC_PER_SHIFT = 0.23  # slope of the AUC at 0.5 with difficulty and noise as above
REFERENCE_SHARE = 0.8  # how much of a reference's answer RMIA takes off

Model = dict[str, Scores]
"""Surface -> raw scores, one fold."""


@dataclass(frozen=True)
class World:
    """Samples, and models of them."""

    stream: np.random.Generator
    difficulty: tuple[Array, Array]
    between: float

    @classmethod
    def of(cls, seed: int, samples: int, between: float) -> World:
        stream = np.random.default_rng(seed)
        return cls(stream, (stream.normal(size=samples), stream.normal(size=samples)), between)

    def noise(self, scale: float) -> tuple[Array, Array]:
        first, second = (self.stream.normal(0, scale, len(group)) for group in self.difficulty)
        return first, second

    def model(self, memory: float) -> Model:
        own = self.noise(MODEL_NOISE)
        shift = self.shift()
        return {
            surface: self._surface(views, own, memory * REMEMBERED[surface] + shift + self.shift())
            for surface, views in VIEWS.items()
        }

    def shift(self) -> float:
        """Half of the variance belongs to the model, half to the surface."""
        return float(self.stream.normal(0, self.between / AUC_PER_SHIFT / np.sqrt(2)))

    def _surface(self, views: int, own: tuple[Array, Array], shift: float) -> Scores:
        noises = [self.noise(VIEW_NOISE) for _ in range(views)]
        members = [self.difficulty[0] + own[0] + noise[0] + shift for noise in noises]
        others = [self.difficulty[1] + own[1] + noise[1] for noise in noises]
        return Scores(np.stack(members)[None], np.stack(others)[None])


def less_memory(model: Model, kept: float, **elsewhere: float) -> Model:
    """The same model, with only a share of what it remembered; another share on some surfaces."""
    lost = {surface: MEMORY * (1 - elsewhere.get(surface, kept)) for surface in model}
    return {
        surface: Scores(scores.members - lost[surface] * REMEMBERED[surface], scores.nonmembers)
        for surface, scores in model.items()
    }


def attacked(
    model: Model, surface: str, attack: str, folds: list[list[Model]], seed: int
) -> Scores:
    """What an attack makes of the raw scores; RMIA once for each choice of references."""
    raw = model[surface]
    if attack == "threshold":
        return raw
    if attack == "logistic":
        stream = np.random.default_rng(seed)
        blur = [
            stream.normal(0, LOGISTIC_NOISE, part.shape) for part in (raw.members, raw.nonmembers)
        ]
        return Scores(raw.members + blur[0], raw.nonmembers + blur[1])
    usual = [_mean_scores([reference[surface] for reference in fold]) for fold in folds]
    return Scores(
        np.concatenate([raw.members - REFERENCE_SHARE * one.members for one in usual]),
        np.concatenate([raw.nonmembers - REFERENCE_SHARE * one.nonmembers for one in usual]),
    )


def _mean_scores(parts: list[Scores]) -> Scores:
    return Scores(
        np.mean([part.members for part in parts], axis=0),
        np.mean([part.nonmembers for part in parts], axis=0),
    )


@dataclass(frozen=True)
class Test:
    """One attack on one surface: scores of candidate, oracles and untouched model."""

    surface: str
    attack: str
    candidate: Scores
    oracles: list[Scores]
    untouched: Scores

    def finding(self) -> Finding:
        found = paired_test(self.candidate, self.oracles, self.untouched, tests=TESTS)
        return Finding(self.surface, self.attack, found)

    def accused_by_samples(self) -> bool:
        """The oracles as folds of one model: they have no spread, only sampling error is left."""
        together = Scores(
            np.concatenate([one.members for one in self.oracles]),
            np.concatenate([one.nonmembers for one in self.oracles]),
        )
        alone = paired_test(together, self.oracles, self.candidate, tests=TESTS).reduction
        assert alone is not None
        low, high = alone.ends
        return low > 0 or high < 0


def audit(candidate: Model, oracles: list[Model], untouched: Model, seed: int) -> Iterator[Test]:
    """Every test of an audit; an oracle's references are the other oracles."""
    folds = [[one for one in oracles if one is not left] for left in oracles]
    for surface, attack in product(VIEWS, ATTACKS):
        theirs = [
            attacked(oracle, surface, attack, [fold], seed + 1 + place)
            for place, (oracle, fold) in enumerate(zip(oracles, folds, strict=True))
        ]
        # an edited model shares the blur of the one that it was made from
        ours, before = (
            attacked(model, surface, attack, folds, seed) for model in (candidate, untouched)
        )
        yield Test(surface, attack, ours, theirs, before)


LESS_BEFORE = 0.6
"""Of the memory of an untouched model from which little can be seen."""

COUNTED = {
    "retrained": (FORGOTTEN, NOT_ENOUGH, "accused"),
    "half left": (FORGOTTEN, "accused"),
    "a third left": (FORGOTTEN, "accused"),
    "old head half": (FORGOTTEN, "accused"),
    "all left": (FORGOTTEN, NOT_FORGOTTEN),
    "none before": (NOTHING_TO_FORGET, "accused"),
    "less before": (NOTHING_TO_FORGET, FORGOTTEN),
}


@dataclass
class Tally:
    """Verdicts over the audits of one setting, by candidate."""

    verdicts: dict[str, list[str]]
    accused_by_samples: int = 0
    everywhere: int = 0
    visible: float = 0.0

    def row(self, audits: int) -> str:
        shares = [
            100 * float(np.mean([_is(verdict, word) for verdict in self.verdicts[name]]))
            for name, words in COUNTED.items()
            for word in words
        ]
        shares[3:3] = [100 * n / audits for n in (self.accused_by_samples, self.everywhere)]
        cells = [f"{share:.0f}" for share in shares]
        return " | ".join([*cells, f"{self.visible / audits:.2f}"])


def heads() -> list[str]:
    names = [f"{name}: {word}" for name, words in COUNTED.items() for word in words]
    names[3:3] = ["by samples alone", "forgotten on each surface"]
    return ["oracles", "samples", "between", *names, "visible"]


def simulate(oracles: int, samples: int, between: float, audits: int) -> Tally:
    """Audits of candidates for which the right answer is known."""
    tally = Tally({name: [] for name in COUNTED})
    for seed in range(audits):
        world = World.of(seed, samples, between)
        references = [world.model(0) for _ in range(oracles)]
        untouched, retrained = world.model(MEMORY), world.model(0)
        _count_retrained(tally, list(audit(retrained, references, untouched, seed)))
        pairs = {
            "half left": (less_memory(untouched, 0.5), untouched),
            "a third left": (less_memory(untouched, 1 / 3), untouched),
            "old head half": (less_memory(untouched, 0.0, stale=0.5), untouched),
            "all left": (untouched, untouched),
            "none before": (retrained, world.model(0)),
            "less before": (retrained, world.model(LESS_BEFORE * MEMORY)),
        }
        for name, (candidate, before) in pairs.items():
            found = _verdict(list(audit(candidate, references, before, seed)))
            tally.verdicts[name].append(found)
    return tally


def _verdict(tests: Sequence[Test]) -> str:
    findings = [test.finding() for test in tests]
    return VerdictRules(findings, len(tests[0].oracles)).verdict()


def _count_retrained(tally: Tally, tests: list[Test]) -> None:
    verdict, findings = _verdict(tests), [test.finding() for test in tests]
    tally.verdicts["retrained"].append(verdict)
    tally.accused_by_samples += any(test.accused_by_samples() for test in tests)
    tally.everywhere += verdict == FORGOTTEN and all(map(_bounded, _by_surface(findings)))
    tally.visible += min(finding.test.smallest_visible for finding in findings)


def _by_surface(findings: Sequence[Finding]) -> list[list[PairedTest]]:
    return [[one.test for one in findings if one.surface == surface] for surface in VIEWS]


def _bounded(tests: Sequence[PairedTest]) -> bool:
    """What is left of the leak on one surface, if one was seen there."""
    removed = overall_removed(tests)
    return removed is None or 1 - removed.ends[0] < MOST_LEFT


# Without oracles

CLASSES, CLASS_SPREAD, MOST_MEMBERS = 10, 1.0, 1000
SHARES = {"nothing left": 0.0, "a third": 1 / 3, "half": 0.5, "all": 1.0, "overshot": -1 / 3}
WORDS = {
    "nothing left": (FORGOTTEN, NOT_ENOUGH, "accused"),
    "a third": (FORGOTTEN, "accused"),
    "half": (FORGOTTEN, "accused"),
    "all": (FORGOTTEN, NOT_FORGOTTEN),
    "overshot": (FORGOTTEN, OVER_FORGOTTEN),
    "nothing there": (NOTHING_TO_FORGET, NOT_ENOUGH, "accused"),
}


@dataclass
class Split:
    """A random split of samples, and models of them."""

    stream: np.random.Generator
    draw: Draw
    difficulty: Array

    @classmethod
    def of(cls, seed: int, samples: int) -> Split:
        stream = np.random.default_rng(seed)
        members = min(2 * samples, MOST_MEMBERS)
        strata = stream.integers(0, CLASSES, members + samples)
        draw = Draw.of(strata[:members], strata[members:], seed, draws=999)
        harder = stream.normal(0, CLASS_SPREAD, CLASSES)[strata]
        return cls(stream, draw, stream.normal(size=len(strata)) + harder)

    def model(self, memory: float) -> dict[tuple[str, str], Array]:
        own = self.difficulty + self.stream.normal(0, MODEL_NOISE, len(self.difficulty))
        return {
            (surface, "threshold"): own
            + self.stream.normal(0, VIEW_NOISE, (views, len(own)))
            + memory * REMEMBERED[surface] * self.draw.member
            for surface, views in VIEWS.items()
        }

    def judged(self, before: float, after: float) -> Instant:
        return compare(self.model(before), self.model(after), self.draw)


def simulate_instant(samples: int, memory: float, audits: int) -> str:
    """One row: AUCs before, the smallest visible leak, and shares of verdicts in percent."""
    found: dict[str, list[Instant]] = {name: [] for name in WORDS}
    for seed in range(audits):
        split = Split.of(seed, samples)
        for name, share in SHARES.items():
            found[name].append(split.judged(memory, share * memory))
        found["nothing there"].append(split.judged(0.0, 0.0))
    usual = found["nothing left"]
    aucs = np.mean([[row.before.auc for row in one.rows] for one in usual], axis=0)
    visible = np.mean([one.smallest_visible for one in usual])
    shares = [
        f"{100 * np.mean([_is(one.verdict(), word) for one in found[name]]):.1f}"
        for name, words in WORDS.items()
        for word in words
    ]
    return " | ".join(["/".join(f"{auc:.2f}" for auc in aucs), f"{visible:.2f}", *shares])


def _is(verdict: str, word: str) -> bool:
    return accuses(Verdict(verdict, "")) if word == "accused" else verdict == word


def print_instant(samples: list[int], audits: int) -> None:
    names = [f"{name}: {word}" for name, words in WORDS.items() for word in words]
    print(" | ".join(["samples", "AUC before", "visible", *names]))
    print(" | ".join(["---:"] * (3 + len(names))))
    for memory, count in product((MEMORY, 2 * MEMORY), samples):
        print(f"{count} | {simulate_instant(count, memory, audits)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=100)
    parser.add_argument("--oracles", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--samples", type=int, nargs="+", default=[40, 150, 500])
    parser.add_argument("--instant", action="store_true")
    chosen = parser.parse_args()
    audits = chosen.audits
    if chosen.instant:
        print_instant(chosen.samples, audits)
        return
    print(" | ".join(heads()))
    print(" | ".join(["---:"] * len(heads())))
    for oracles, samples, between in product(chosen.oracles, chosen.samples, (0.01, 0.03)):
        row = simulate(oracles, samples, between, audits).row(audits)
        print(f"{oracles} | {samples} | {between:.2f} | {row}", flush=True)


if __name__ == "__main__":
    main()
