"""Does another score than the loss give the audit without oracles more power?

    python bench/scores.py RUN --client client-05 [--oracles 4] [--data-root DATA]

On the samples of the level `instant`, through its surfaces. Judged are the untouched run, removals
by `exclude` at several strengths, and the oracles that the run has already (`pfedul rehearse RUN
--client client-05 --level standard` trains them), which are known to give nothing away. It writes
only sealed copies, which it erases. Scores are made of margins: they rank samples as the loss does,
but their differences are closer to a normal law.

- loss: the margin alone.
- tta: its mean over the image, its mirror image and four shifts by two pixels.
- blind: minus a difficulty known without the client: the margin of a linear rule that the remaining
  clients' training images gave to a network with random weights.
- others (old head and probe only): minus the mean margin of the remaining clients' new models.
- oracle: minus the mean margin through one cached oracle's remaining models.
- RMIA: with one oracle as its reference, and the remaining clients' test samples as population.
- IAM: how far the margin is on the way from one oracle's to the untouched run's (0 to 1).
- untouched: minus the margin of the untouched run.

What is taken away is multiplied by the slope of a regression on the remaining clients' test
samples, so a reference that knows nothing does no harm. Scores that use an oracle are means over
all oracles that are not judged themselves. Each cell is the AUC, within classes, and how many
standard errors it lies from 1/2; 1.96 of them are p = 0.05. For oracles as the model
judged it is the mean of their AUCs and of their distances: both should be those of chance.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pfedul import Federation
from pfedul.audit.ask.logits import logits_from_heads
from pfedul.audit.ask.probe import linear_probe
from pfedul.audit.ask.samples import MOST_POPULATION, labels_of, pooled, together
from pfedul.audit.ask.surfaces import features_of
from pfedul.audit.attacks.rmia import rmia_scores
from pfedul.audit.attacks.signals import margin
from pfedul.audit.instant import Exam, exam_of
from pfedul.audit.judge.leaks import Leak
from pfedul.audit.models import forget_in_copy, personal_of, untouched_state
from pfedul.audit.state import State, state_of
from pfedul.base.inputs import single
from pfedul.base.tensors import read_tensors
from pfedul.base.threads import one_core
from pfedul.data.samples import TensorSamples
from pfedul.run.retrained import open_recipe, oracle_recipes, rounds_done
from pfedul.store.copies import COPY, copies_erased
from pfedul.unlearn.options import ForgetOptions

Array = NDArray[np.float64]
Margins = dict[str, Array]
"""Surface -> margins [views, samples], the client's samples first, then the population."""

STRENGTHS = (0.1, 0.2, 0.5)
SHIFTS = ((0, 2), (0, -2), (2, 0), (-2, 0))
SURFACES = ("remaining", "stale", "probe")


@dataclass(frozen=True, eq=False)
class Bench:
    """A run, the samples that its models are asked about, and whose they are."""

    run: Federation
    target: str
    exam: Exam
    asked: TensorSamples

    @classmethod
    def of(cls, run: Federation, target: str) -> Bench:
        exam = exam_of(run, [target])
        parts = [run.bench.data[client].test for client in run.clients if client != target]
        population = pooled(parts, MOST_POPULATION, run.settings.seed)
        return cls(run, target, exam, together([exam.asked, population]))

    def margins(self, state: State, asked: TensorSamples | None = None) -> Margins:
        samples, bench = asked or self.asked, self.run.bench
        parts = {client: state.personal[client] for client in self.exam.models}
        logits = logits_from_heads(bench, state.shared, {**parts, **state.stale}, samples)
        found = {"stale": [logits.pop(self.target)], "remaining": list(logits.values())}
        found["probe"] = [self._probe(state, samples)]
        labels = labels_of(samples)
        return {name: np.stack([margin(one, labels) for one in found[name]]) for name in SURFACES}

    def _probe(self, state: State, samples: TensorSamples) -> Array:
        both = together([self.exam.fitting, samples])
        features, labels = features_of(self.run.bench, state, both), labels_of(both)
        known = len(self.exam.fitting)
        classes = int(labels.max()) + 1
        return linear_probe(features[:known], labels[:known], features[known:], classes)

    def shifted(self, state: State) -> Margins:
        """Mean margins over small changes of the images."""
        x, y = single(self.asked.x), self.asked.y
        images = [x, x.flip(-1), *(torch.roll(x, by, (-2, -1)) for by in SHIFTS)]
        found = [self.margins(state, TensorSamples(image, y)) for image in images]
        return {name: np.mean([one[name] for one in found], axis=0) for name in SURFACES}

    def blind(self, state: State) -> Array:
        """Difficulty by features of random weights."""
        fresh = read_tensors(self.run.bench.build_model(), self.run.bench.split.shared)
        answers = self._probe(State(fresh, state.personal, {}), self.asked)
        return margin(answers, labels_of(self.asked))

    @property
    def own(self) -> int:
        return len(self.exam.asked)


def states(run: Federation, target: str, oracles: int) -> tuple[dict[str, State], list[State]]:
    """The models to judge, and the cached oracles."""
    judged = {"untouched": untouched_state(run, [target])}
    for strength in STRENGTHS:
        options = ForgetOptions(correction="exclude", strength=strength)
        with copies_erased(run.store.path):
            found, _ = forget_in_copy(run, COPY, [target], options, (), run=run)
        judged[f"strength {strength}"] = found
    stale, cached = personal_of(run, [target]), []
    for recipe in oracle_recipes(run, [target], oracles):
        if rounds_done(run, recipe) >= run.rounds:
            with closing(open_recipe(run, recipe)) as oracle:
                cached.append(state_of(oracle, oracle.clients, stale))
    return judged, cached


# Scores


def calibrated(margins: Array, reference: Array, own: int) -> Array:
    """Margins minus what the reference explains of them, by the population's regression."""
    slopes = [np.polyfit(reference[own:], view[own:], 1)[0] for view in margins]
    less: Array = margins - np.array(slopes)[:, None] * reference
    return less[:, :own]


def rmia(margins: Array, reference: Array, own: int) -> Array:
    sure, guess = (1 / (1 + np.exp(-part)) for part in (margins, reference))
    return np.stack(
        [rmia_scores((v[:own], guess[None, :own]), (v[own:], guess[None, own:])) for v in sure]
    )


def between(margins: Array, reference: Array, before: Array, own: int) -> Array:
    """Where the margin lies between an oracle's and the untouched run's."""
    way = before - reference
    way = np.where(np.abs(way) < 0.1, 0.1, way)
    return np.clip((margins - reference) / way, -1, 2)[:, :own]


def scores(
    seen: Margins,
    moved: Margins,
    before: Margins,
    blind: Array,
    oracles: Sequence[Margins],
    own: int,
) -> dict[str, dict[str, list[Array]]]:
    """Score -> surface -> scores with each choice of the reference."""
    easy = [one["remaining"].mean(axis=0) for one in oracles]
    others = seen["remaining"].mean(axis=0)
    kinds: Mapping[str, Callable[[str], list[Array]]] = {
        "loss": lambda s: [seen[s][:, :own]],
        "tta": lambda s: [moved[s][:, :own]],
        "blind": lambda s: [calibrated(seen[s], blind, own)],
        "others": lambda s: [] if s == "remaining" else [calibrated(seen[s], others, own)],
        "oracle": lambda s: [calibrated(seen[s], one, own) for one in easy],
        "RMIA": lambda s: [rmia(seen[s], one, own) for one in easy],
        "IAM": lambda s: [between(seen[s], one, before[s], own) for one in easy],
        "untouched": lambda s: [calibrated(seen[s], before[s].mean(axis=0), own)],
    }
    return {kind: {s: score(s) for s in SURFACES} for kind, score in kinds.items()}


def cell(found: Sequence[Sequence[Array]], bench: Bench) -> str:
    """Mean AUC, and mean distance from 1/2 in standard errors."""
    leaks = [Leak.of(one, bench.exam.draw) for several in found for one in several]
    if not leaks:
        return "-"
    distances = [leak.size / max(leak.error, 1e-9) for leak in leaks]
    text = f"{np.mean([leak.auc for leak in leaks]):.3f} {np.mean(distances):+.1f}"
    if len(found) > 1:
        text += f" (largest {max(distances, key=abs):+.1f})"
    return text


def table(bench: Bench, judged: Mapping[str, State], cached: Sequence[State]) -> None:
    blind = bench.blind(judged["untouched"])
    before = bench.margins(judged["untouched"])
    oracles = [bench.margins(state) for state in cached]

    def of(state: State, references: Sequence[Margins]) -> dict[str, dict[str, list[Array]]]:
        seen, moved = bench.margins(state), bench.shifted(state)
        return scores(seen, moved, before, blind, references, bench.own)

    rows = {name: [of(state, oracles)] for name, state in judged.items()}
    rows["oracles"] = [
        of(state, [one for other, one in enumerate(oracles) if other != place])
        for place, state in enumerate(cached)
    ]
    print("model | score | " + " | ".join(SURFACES))
    print("--- | --- | ---: | ---: | ---:")
    for name, found in rows.items():
        for score in found[0] if found else ():
            cells = [cell([one[score][s] for one in found], bench) for s in SURFACES]
            print(f"{name} | {score} | {' | '.join(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--client", required=True)
    parser.add_argument("--oracles", type=int, default=4)
    parser.add_argument("--data-root")
    chosen = parser.parse_args()
    later = {} if chosen.data_root is None else {"data_root": chosen.data_root}
    with Federation.open(chosen.run, engine="inline", **later) as run, one_core():
        judged, cached = states(run, chosen.client, chosen.oracles)
        bench = Bench.of(run, chosen.client)
        print(f"{chosen.run}, {chosen.client}: {bench.exam.counts}, {len(cached)} oracles")
        table(bench, judged, cached)


if __name__ == "__main__":
    main()
