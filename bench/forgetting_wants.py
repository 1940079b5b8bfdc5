"""What was wanted of the default removal, against what `forgetting.py` measured.

A figure is wanted of every personalisation, and not only of their mean, where one that misses
hides behind one that does better. A verdict is wanted in nine of ten cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from forgetting import CONTROL_ROUNDS, SETTINGS
from forgetting_cells import (
    DEFAULT,
    ORACLES,
    UNTOUCHED,
    Cells,
    figures,
    groups,
    having,
    markdown,
    mean,
    named,
)

WITHOUT_ROUNDS = "exclude 1"
CONTROLS = [*(f"old heads, {n} rounds" for n in CONTROL_ROUNDS), "CT", "FedMemPrune"]
SAME_COST = 1.25
"""Times the default's CPU time; a control that costs more is shown, and decides nothing."""
FORGETS = 0.9
"""Of the leak; a control that removes less forgets too little to compare with."""
PAPERS_EPOCHS = 1000

Measured = tuple[str, bool]
"""What was measured, in words, and whether that is what was wanted."""


@dataclass(frozen=True)
class Want:
    """Something that was wanted; `each`: of every personalisation."""

    words: str
    measured: Callable[[Cells], Measured]
    each: bool = True

    def reached(self, cells: Cells) -> bool:
        parts = groups(cells).values() if self.each else ()
        return all(self.measured(part)[1] for part in (cells, *parts))


def wanted(cells: Cells) -> str:
    """Each want with what was measured: over all cells, and of each personalisation."""
    parts = groups(cells)
    lines = [["wanted of the default", "all", *parts, "reached"]]
    for want in WANTS:
        measured = [_marked(want.measured(part)) for part in (cells, *parts.values())]
        lines.append([want.words, *measured, "yes" if want.reached(cells) else "**no**"])
    return markdown(lines, words=len(lines[0]))


def _marked(measured: Measured) -> str:
    words, reached = measured
    return words if reached else f"**{words}**"


def _forgotten(level: str) -> Callable[[Cells], Measured]:
    def measured(cells: Cells) -> Measured:
        leaks = [c for c in cells if c["rows"][UNTOUCHED]["verdict"] == "not forgotten"]
        good = sum(cell["rows"][DEFAULT].get(level) == "forgotten" for cell in leaks)
        return f"{good} of {len(leaks)}", good >= 0.9 * len(leaks)

    return measured


def _pps(cells: Cells) -> Measured:
    pps = mean(cells, DEFAULT, "pps")
    return f"{pps:.3f}", pps >= 0.975


def _pps_of_oracles(cells: Cells) -> Measured:
    both = (figures(having(cells, DEFAULT), name, "pps") for name in (DEFAULT, ORACLES))
    apart = [own - theirs for own, theirs in zip(*both, strict=True)]
    words = f"{fmean(apart):+.3f} (cells: {min(apart):+.3f} to {max(apart):+.3f})"
    return words, fmean(apart) >= -0.02


def _cfi(cells: Cells) -> Measured:
    own, theirs = (mean(cells, name, "cfi") for name in (DEFAULT, ORACLES))
    return f"{own:.3f}, theirs {theirs:.3f}", own >= theirs


def _cost(variant: str, most: int) -> Callable[[Cells], Measured]:
    def measured(cells: Cells) -> Measured:
        share = mean(cells, variant, "cpu_share")
        return f"1/{1 / share:.1f} ({share:.1%})", share * most <= 1

    return measured


def _ahead(cells: Cells) -> Measured:
    """The control with the highest PPS among those that forget and cost no more."""
    rivals = {name: _control(cells, name) for name in CONTROLS if having(cells, name)}
    like = {n: c for n, c in rivals.items() if c.removed >= FORGETS and c.times <= SAME_COST}
    own = mean(cells, DEFAULT, "pps")
    if not like:
        return f"{own:.3f}; no control forgets at its cost", True
    best = max(like, key=lambda name: like[name].pps)
    return f"{own:.3f}; {best} {like[best].pps:.3f}", own > like[best].pps


_IN_CELLS = '"forgotten" in nine of ten cells in which untouched is not'
WANTS = (
    Want(f"{_IN_CELLS} (four oracles)", _forgotten("verdict"), each=False),
    Want(f"{_IN_CELLS} (instant)", _forgotten("instant"), each=False),
    Want("mean PPS at least 0.975", _pps),
    Want("mean PPS at most 0.02 below the oracles'", _pps_of_oracles),
    Want("mean CFI not below the oracles'", _cfi),
    Want("at most 1/15 of retraining's CPU time", _cost(DEFAULT, 15)),
    Want("without rounds, at most 1/75 of retraining's CPU time", _cost(WITHOUT_ROUNDS, 75)),
    Want(f"more PPS than every control that forgets at up to {SAME_COST} times its cost", _ahead),
)


# The controls


@dataclass(frozen=True)
class Control:
    """Means of a control; `times` is its CPU time as a multiple of the default's."""

    pps: float
    times: float
    removed: float


def _control(cells: Cells, name: str) -> Control:
    cells = having(having(cells, name), DEFAULT)
    own = mean(cells, DEFAULT, "cpu_share")
    pps, share, removed = (mean(cells, name, f) for f in ("pps", "cpu_share", "removed"))
    return Control(pps, share / own, removed)


def controls(cells: Cells) -> str:
    """Every control: PPS, and the measured multiple of the default's CPU time."""
    parts = groups(cells)
    lines = [["PPS at the measured cost", "all", *parts]]
    for name in (DEFAULT, *CONTROLS):
        if having(cells, name):
            shown = [_control_words(part, name) for part in (cells, *parts.values())]
            lines.append([named(name, cells), *shown])
    return markdown(lines, words=len(lines[0]))


def _control_words(cells: Cells, name: str) -> str:
    if not having(cells, name):
        return ""
    control = _control(cells, name)
    leak = "" if control.removed >= FORGETS else f", {control.removed:.0%} of the leak removed"
    return f"{control.pps:.3f} at {control.times:.1f} times{leak}"


# What the figures are worth


def remarks(cells: Cells) -> str:
    """The error of PPS, and what the cost is at other numbers of epochs."""
    low, high = (f"{end:.3f}" for end in _ends([_pps_error(cell) for cell in cells]))
    epochs = SETTINGS["rounds"] * SETTINGS["local_epochs"]
    rounds = [f"{end:.0f}" for end in _ends(figures(cells, DEFAULT, "rounds"))]
    worth = mean(cells, DEFAULT, "cpu_share") * epochs
    return (
        f"The standard error of a cell's PPS that comes from its test images is {low} to {high}, "
        "if accuracies before and after were independent and clients of one size (binomial). It is "
        "smaller because both are answers to the same images, and larger because clients differ in "
        "size.\n\n"
        f"The default trains {' to '.join(dict.fromkeys(rounds))} epochs of the shared part, and "
        f"takes the CPU time of {worth:.1f} of retraining's {epochs} epochs. At the paper's "
        f"{PAPERS_EPOCHS:,} epochs the same work would be 1/{PAPERS_EPOCHS / worth:.0f} of "
        "retraining; whether it would be enough there was not measured."
    )


def _ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _pps_error(cell: Mapping[str, object]) -> float:
    """Of a mean of ratios of two accuracies a: sqrt(2 (1 - a) / (a n)), all samples together."""
    [accuracy] = figures([cell], UNTOUCHED, "accuracy")
    samples = SETTINGS["test_samples"] * (1 - float(str(cell["share"])))
    return float((2 * (1 - accuracy) / (accuracy * samples)) ** 0.5)
