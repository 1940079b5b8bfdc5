"""One case, examined: the candidate and every control by the same procedure.

A control is judged as the candidate is, against the same oracles and the same untouched
model. So what an audit says of the candidate can be weighed by what it says of models
for which the right answer is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pfedul.audit.ask.answers import Answers, noisy
from pfedul.audit.ask.samples import AuditSamples
from pfedul.audit.ask.surfaces import Surface
from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.base import Attack, Estimate, averaged
from pfedul.audit.attacks.checks import backdoor_attack
from pfedul.audit.attacks.signals import margin
from pfedul.audit.judge.distances import between_oracles, distance_figures
from pfedul.audit.judge.paired_test import paired_test
from pfedul.audit.judge.rules import Finding, Guard, TriggerFinding, Verdict, VerdictRules, passes
from pfedul.audit.judge.scores import ScoreBook
from pfedul.audit.judge.verdict import judge

NOISE_STEPS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Of the control with noise, in standard deviations of the untouched model's margins."""


@dataclass(frozen=True, eq=False)
class Case:
    """All that was answered. `controls` are models that must not pass."""

    samples: AuditSamples
    surfaces: Sequence[Surface]
    candidate: Answers
    oracles: Sequence[Answers]
    untouched: Answers | None = None
    controls: Mapping[str, Answers] = field(default_factory=dict)
    target: str = "the client"

    @property
    def judged(self) -> list[Surface]:
        """Those that the verdict rests on."""
        return [surface for surface in self.surfaces if surface.judged]

    @property
    def models(self) -> dict[str, Answers]:
        """Those that figures show, by name."""
        shown = {"candidate": self.candidate}
        if self.untouched is not None:
            shown["untouched"] = self.untouched
        return shown | {f"oracle {n}": model for n, model in enumerate(self.oracles, start=1)}


@dataclass(frozen=True)
class Control:
    """A model of which it is known what an audit must say; `holds` is None where it said nothing.

    A control that does not hold says that this audit cannot be relied upon.
    """

    name: str
    must: str
    verdict: Verdict
    summary: str

    @property
    def holds(self) -> bool | None:
        if self.verdict.verdict == "not enough evidence":
            return None
        passed = passes(self.verdict, held_out=self.must == "pass")
        return passed == (self.must == "pass")

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "must": self.must,
            "finding": self.verdict.verdict,
            "holds": self.holds,
            "summary": self.summary,
        }


class Examiner:
    """Judges the models of one case, and never works the same thing out twice."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.book = ScoreBook()

    def findings(self, model: Answers, oracles: Sequence[Answers]) -> list[Finding]:
        """What every attack on every surface says of a model compared with these oracles."""
        pairs = [
            (surface, attack)
            for surface in self.case.judged
            for attack in ATTACKS
            if attack.usable(len(oracles))
        ]
        return [self._finding(*pair, model, oracles, len(pairs)) for pair in pairs]

    def _finding(
        self,
        surface: Surface,
        attack: Attack,
        model: Answers,
        oracles: Sequence[Answers],
        tests: int,
    ) -> Finding:
        place, untouched = (attack, surface.name), self.case.untouched
        found = paired_test(
            self.book.folded(*place, model, oracles),
            self.book.of_oracles(*place, oracles),
            None if untouched is None else self.book.folded(*place, untouched, oracles),
            worst=surface.worst,
            tests=tests,
        )
        return Finding(surface.name, attack.name, found)

    def judged(
        self,
        model: Answers,
        oracles: Sequence[Answers] | None = None,
        ulira: Estimate | None = None,
        held_out: Sequence[Verdict] = (),
        untested: Mapping[str, str] | None = None,
    ) -> Verdict:
        """The verdict on a model, against all oracles of the case unless others are given."""
        against = self.case.oracles if oracles is None else oracles
        rules = VerdictRules(
            self.findings(model, against),
            oracles=len(against),
            target=self.case.target,
            guard=self._guard(model, against),
            ulira=ulira,
            backdoor=self.backdoor(model, against),
            held_out=held_out,
        )
        return judge(rules, untested)

    def _guard(self, model: Answers, oracles: Sequence[Answers]) -> Guard:
        """How far the model's answers to other people's test samples are from the oracles'."""
        between = between_oracles(oracles, "test")
        reach = None if between is None else (between["kl"][0], between["kl"][1])
        return Guard(distance_figures(model, oracles, "test")[0], reach)

    def backdoor(self, model: Answers, oracles: Sequence[Answers]) -> TriggerFinding | None:
        """How often a planted trigger works; None where none was planted by a target."""
        if self.case.samples.backdoor is None:
            return None
        untouched = self.case.untouched
        return TriggerFinding(
            self.trigger_success(model),
            tuple(self.trigger_success(oracle) for oracle in oracles),
            None if untouched is None else self.trigger_success(untouched),
        )

    def trigger_success(self, model: Answers) -> Estimate:
        """How often the planted trigger works through the remaining clients' models, averaged."""
        samples = self.case.samples
        assert samples.backdoor is not None
        return averaged(
            [
                backdoor_attack(logits, samples.labels.population, samples.backdoor.label)
                for logits in model.triggered.values()
            ]
        )

    @cached_property
    def held_out(self) -> list[Control]:
        """Each oracle as the candidate, the others as its oracles."""
        oracles = self.case.oracles
        if len(oracles) < 2:
            return []
        return [
            Control(
                f"held-out oracle {number}",
                "pass",
                self.judged(oracle, [other for other in oracles if other is not oracle]),
                "a retrained model, which never saw the target, judged against the other oracles",
            )
            for number, oracle in enumerate(oracles, start=1)
        ]

    def controls(self) -> list[Control]:
        """All controls of the case, held-out oracles first."""
        untouched = self.case.untouched
        if untouched is None:
            return self.held_out
        controls = [
            Control(name, "fail", self.judged(model), _SUMMARIES[name])
            for name, model in {"untouched": untouched, **self.case.controls}.items()
        ]
        return [*self.held_out, *controls, self._noise(untouched)]

    def _noise(self, untouched: Answers) -> Control:
        """The untouched model with the least noise on its answers that hides what leaks."""
        margins = [
            margin(view.members, view.labels.members)
            for surface in self.case.judged
            for view in untouched.views[surface.name]
        ]
        unit = float(np.std(np.concatenate(margins)))
        for step in NOISE_STEPS:
            model = noisy(untouched, step * unit, seed=0)
            findings = self.findings(model, self.case.oracles)
            if not any(finding.finding.endswith("leak") for finding in findings):
                break
        summary = f"{_SUMMARIES['noise']} ({step:g} standard deviations of its margins)"
        return Control("noise", "fail", self.judged(model), summary)


_SUMMARIES = {
    "untouched": "the run as it is, nothing done; if it passes there is nothing to forget",
    "one more round": "an ordinary round more, with the target",
    "no-op": "erasure and recalibration without any correction",
    "noise": "the untouched model with just enough noise on its answers to hide what leaks",
}
