"""What to do next, with the commands: after a rehearsal, and after the removal itself.

The shell prints it and the report's first page shows it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pfedul.audit.judge.rules import (
    FORGOTTEN,
    NOT_ENOUGH,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
)
from pfedul.audit.levels import LEVELS, Level
from pfedul.audit.rehearsal import Rehearsal, level_words, option_words
from pfedul.base.names import DISTIL, ORDINARY
from pfedul.unlearn.inspection import usual_repair
from pfedul.unlearn.methods.retrain import RETRAIN
from pfedul.unlearn.options import ForgetOptions

REQUIREMENTS = {
    "partly": (PARTLY, NOTHING_TO_FORGET, FORGOTTEN),
    "no-leak": (NOTHING_TO_FORGET, FORGOTTEN),
    "forgotten": (FORGOTTEN,),
}
"""What `--require` asks for -> the verdicts that meet it."""

SETTLED = REQUIREMENTS["no-leak"]
"""Verdicts after which the removal can be done, or signed."""

ENOUGH_ROUNDS = 4
"""Repair rounds to begin with, where a removal went too far."""

_ORACLES = "models that are trained again without the client (oracles)"
NOTHING_LEFT = "No level looks more closely than this one; only more samples can decide."


def meets(verdict: str, required: str | None) -> bool:
    """Whether a verdict is at least what is required.

    >>> meets(PARTLY, None), meets(PARTLY, "partly"), meets(NOT_ENOUGH, "partly")
    (True, True, False)
    """
    return required is None or verdict in REQUIREMENTS[required]


@dataclass(frozen=True)
class Step:
    """What to do, in a sentence, and the commands that do it, in their order."""

    words: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """A rehearsed removal. `usual`: how many repair rounds it has without a number."""

    targets: tuple[str, ...]
    options: ForgetOptions
    level: Level
    records: tuple[str, ...]
    usual: int
    away: tuple[str, ...] = ()

    @staticmethod
    def of(rehearsal: Rehearsal) -> Trial:
        run, targets = rehearsal.run, rehearsal.targets
        usual, records = usual_repair(run, targets), tuple(run.settings.records)
        return Trial(
            targets, rehearsal.options, rehearsal.level, records, usual, away=rehearsal.away
        )

    @property
    def words(self) -> str:
        """Arguments of the removal on the command line."""
        away = [f"--away {shlex.quote(client)}" for client in self.away]
        return " ".join([*_clients(self.targets), *option_words(self.options), *away])

    def command(self, run: str) -> str:
        """The rehearsal on the command line; the level `instant` is the default."""
        level = f" {level_words(self.level)}" if self.level.oracles else ""
        return f"pfedul rehearse {run} {self.words}{level}"


def next_command(steps: Sequence[Step]) -> str:
    """The commands of the first step, or else its words: for the shell."""
    return ", then ".join(steps[0].commands) or steps[0].words


def after_rehearsal(trial: Trial, verdict: str, run: str) -> list[Step]:
    """The first step is the one to take; the others are choices."""
    after = next_trial(trial, verdict)
    if verdict not in SETTLED:
        commands = () if after is None else (after.command(run),)
        return [Step(_rehearse_again(trial, after, verdict), commands)]
    words = "Do the removal: it gives the tensors that were rehearsed, so this evidence holds."
    steps = [Step(words, (f"pfedul forget {run} {trial.words}", f"pfedul report {run}"))]
    closer = _closer(trial)
    if closer is not None:
        words = f"To look more closely first, compare the outcome with {_ORACLES}."
        steps.append(Step(words, (closer.command(run),)))
    return steps


def _rehearse_again(before: Trial, after: Trial | None, verdict: str) -> str:
    if after is None:
        return NOTHING_LEFT
    if after.options == before.options:
        return f"Do not remove yet: compare the outcome with more {_ORACLES}."
    kind = "gentler" if verdict == OVER_FORGOTTEN else "stronger"
    return f"Do not remove with this setting: rehearse a {kind} one."


def next_trial(trial: Trial, verdict: str) -> Trial | None:
    """Another removal at this level, or this one at a level with more oracles; None if neither."""
    if verdict == NOT_ENOUGH or trial.options.entry == RETRAIN:
        return _closer(trial)
    options = _gentler(trial) if verdict == OVER_FORGOTTEN else _stronger(trial)
    return replace(trial, options=options)


def _closer(trial: Trial) -> Trial | None:
    """The next level that trains more oracles."""
    level = _next_level(trial.level.oracles)
    return None if level is None else replace(trial, level=level)


def _next_level(oracles: int) -> Level | None:
    levels = LEVELS["standard"], LEVELS["strict"]
    return next((level for level in levels if level.oracles > oracles), None)


def _gentler(trial: Trial) -> ForgetOptions:
    """Further rounds of the others bring back what retraining would have kept."""
    options = trial.options.settled(trial.usual)
    return replace(options, repair_rounds=max(ENOUGH_ROUNDS, 2 * options.repairs))


def _stronger(trial: Trial) -> ForgetOptions:
    """The default; then the same without a teacher that knew the targets; then retraining."""
    options, plain = trial.options, ForgetOptions(seed=trial.options.seed)
    if "contributions" in trial.records:
        if not options.excludes:
            return plain
        if options.repairs and options.repair_kind == DISTIL:
            return replace(plain, repair=ORDINARY)
    return replace(plain, method=RETRAIN.name)


def _clients(targets: Iterable[str]) -> list[str]:
    return [f"--client {shlex.quote(target)}" for target in targets]


def given_options(settled: Mapping[str, Any], usual: int) -> ForgetOptions:
    """The fewest options that mean what a removal wrote down of its own.

    >>> given_options(ForgetOptions().settled(3).as_json(), 3) == ForgetOptions()
    True
    >>> given_options(ForgetOptions(layers="high").as_json(), 2) == ForgetOptions(layers="high")
    True
    """
    known = {spec.name for spec in fields(ForgetOptions)}
    options = ForgetOptions(**{name: value for name, value in settled.items() if name in known})
    for spec in fields(ForgetOptions):
        default: Any = {spec.name: spec.default}
        shorter = replace(options, **default)
        if shorter.settled(usual).as_json() == options.settled(usual).as_json():
            options = shorter
    return options


@dataclass(frozen=True)
class Removed:
    """A removal that is done; `oracles`: of the evidence about it. `measurable`: by an audit."""

    targets: tuple[str, ...]
    request: int
    oracles: int = 0
    measurable: bool = True


def after_removal(done: Removed, verdict: str, run: str) -> list[Step]:
    """Without a verdict on these tensors it is `NOT_ENOUGH`."""
    closer = _audit(done, run) if done.measurable else None
    if verdict in SETTLED:
        file = Step("Sign and file: keep the certificate and this page.", _filing(done, run))
        words = (
            f"To look more closely before you sign, compare the outcome with {_ORACLES}. {_SAMPLES}"
        )
        return [file, *([Step(words, (closer,))] if closer else [])]
    note = Step("To put on record what was done, and how far it went.", _filing(done, run))
    if verdict != NOT_ENOUGH:
        return [Step(_RETRAIN, _retraining(done, run)), note]
    if closer:
        words = f"Before you answer, compare the outcome with {_ORACLES}. {_SAMPLES}"
        return [Step(words, (closer,)), note]
    return [Step(_OPEN), note]


_SAMPLES = (
    "That needs the client's samples: 'run' takes them from the run's own data set; else name a "
    "file of them in its place."
)
_RETRAIN = (
    "Do not answer yet that the client is forgotten. Training again without it is exact: admit it, "
    "train no round, and forget it with the method retrain."
)
_OPEN = (
    "Nothing more can be measured here. Answer that the removal was done and that its effect was "
    "not shown."
)


def _audit(done: Removed, run: str) -> str | None:
    level = _next_level(done.oracles)
    if level is None:
        return None
    words = f"--request {done.request} --target-data run {level_words(level)}"
    return f"pfedul audit {run} {words}"


def _filing(done: Removed, run: str) -> tuple[str, ...]:
    which = f"{run} --request {done.request}"
    return f"pfedul certificate {which}", f"pfedul report {which} --format pdf"


def _retraining(done: Removed, run: str) -> tuple[str, ...]:
    admitted = [f"pfedul admit {run} {client} --again" for client in _clients(done.targets)]
    again = f"pfedul forget {run} {' '.join(_clients(done.targets))} --method {RETRAIN.name}"
    return *admitted, again
