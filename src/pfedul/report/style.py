"""How each kind of model is drawn: colour, marker and line. No two differ by colour alone.

Figures are drawn in placeholder colours, which `svg.py` replaces by CSS variables (`INKS`),
so one picture serves light and dark pages. The page's colours are the Okabe-Ito palette,
which colour-blind readers can distinguish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

INK, GRID, BAND, PAGE = "#010101", "#020202", "#030303", "#090909"
_CANDIDATE, _ORACLE, _UNTOUCHED, _FRESH, _MEMBERS = (f"#0{i}0{i}0{i}" for i in range(4, 9))

INKS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    BAND: "var(--band)",
    PAGE: "var(--page)",
    _CANDIDATE: "var(--candidate)",
    _ORACLE: "var(--oracle)",
    _UNTOUCHED: "var(--untouched)",
    _FRESH: "var(--fresh)",
    _MEMBERS: "var(--members)",
}
"""Placeholder colour -> CSS colour."""


def on_white(colour: str) -> str:
    """The light-theme colour for a placeholder, for pictures in files.

    >>> on_white(PAGE), on_white(INK) != INK
    ('#ffffff', True)
    """
    return light({"currentColor": "ink"}.get(INKS[colour], INKS[colour][6:-1]))


def light(name: str) -> str:
    """The light-theme colour of a CSS variable of the page.

    >>> light("page")
    '#ffffff'
    """
    style = files("pfedul.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
    match = re.search(rf"--{name}: (#[0-9a-f]{{6}});", style)
    assert match is not None
    return match.group(1)


@dataclass(frozen=True)
class Series:
    """How one kind of model looks; `line` and `marker` are matplotlib's codes.

    What came before is hollow and larger, so a mark on the same place lies in it. Oracles are
    hollow, so marks under them stay visible.
    """

    name: str
    label: str
    colour: str
    marker: str
    line: str

    @property
    def hollow(self) -> bool:
        return self.name in {"oracle", "before", "untouched"}

    @property
    def fill(self) -> str:
        return "none" if self.hollow else self.colour

    @property
    def size(self) -> float:
        """In points."""
        return 9.0 if self.name in {"before", "untouched"} else 5.5


SERIES = {
    entry.name: entry
    for entry in (
        Series("candidate", "candidate: the outcome under audit", _CANDIDATE, "D", "-"),
        Series("oracle", "oracles: retrained without the target", _ORACLE, "o", "--"),
        Series("untouched", "untouched: before the removal", _UNTOUCHED, "s", "-."),
        Series("fresh", "fresh: never trained", _FRESH, "^", ":"),
        Series("before", "before", _UNTOUCHED, "s", "-."),
        Series("after", "after", _CANDIDATE, "D", "-"),
        Series("band", "shaded: the spread of retraining", BAND, "", ""),
        Series("members", "members: the target's training samples", _MEMBERS, "", "fill"),
        Series("nonmembers", "non-members: samples never trained on", INK, "", "-"),
        Series("chosen", "corrected", _CANDIDATE, "", "fill"),
        Series("method", "methods", _CANDIDATE, "D", "-"),
        Series("control", "controls", _FRESH, "^", ":"),
        Series("other", "left alone", _ORACLE, "", "box"),
    )
}


def series_of(model: str) -> Series:
    """The series that a model belongs to.

    >>> series_of("oracle 3").name, series_of("candidate").name
    ('oracle', 'candidate')
    """
    return SERIES.get(model, SERIES["oracle"])


def legend_of(models: Iterable[str]) -> tuple[str, ...]:
    """The series among these models, in the order of the legend.

    >>> legend_of(["oracle 1", "candidate", "oracle 2"])
    ('candidate', 'oracle')
    """
    present = {series_of(model).name for model in models}
    return tuple(name for name in SERIES if name in present)
