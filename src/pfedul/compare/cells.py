"""Cells: which methods are compared, with which options and seeds, and how users name them.

`federaser`, `fine-tune:rounds=5,lr=0.05` and, for pFedUL, the options of `forget`:
`pfedul:correction=reset,fraction=0.3`. `NAME+recalibrate` lets the remaining clients
recalibrate afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pfedul.audit.models import check_ready
from pfedul.base.hashes import digest
from pfedul.base.randomness import derive_seed
from pfedul.base.registry import FreeName, write
from pfedul.errors import PfedulError
from pfedul.run.run import Run
from pfedul.unlearn.base import Method
from pfedul.unlearn.checks import check_method
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import spent_by_method, stages_of

CellResult = dict[str, Any]
"""The result of a cell as plain data; `failure` has the sentence if the method failed."""

ALL = "all"
RECALIBRATE = "+recalibrate"
UNIT = "pfedul"
"""The cell whose CPU time is the unit of budgets."""


@dataclass(frozen=True)
class Cell:
    """One method with its options and one seed; `label` is how the user wrote it."""

    label: str
    options: ForgetOptions

    @property
    def method(self) -> Method:
        return METHODS.parse(self.options.method)[0]

    @property
    def seed(self) -> int | None:
        return self.options.seed

    @property
    def key(self) -> str:
        """The name of its folder: readable, and different for different options."""
        words = json.dumps(asdict(self.options), sort_keys=True)
        return f"{self.method.name}-{digest(words.encode())[:10]}"


def cells_of(lists: Iterable[str], seeds: Sequence[int | None]) -> list[Cell]:
    """The cells of these lists of methods, each once, in the order in which they are named."""
    labels = dict.fromkeys(label for text in lists for label in _labels(text))
    if not labels:
        raise PfedulError("Name at least one method, or 'all'; see 'pfedul methods'.")
    cells = [Cell(label, options_of(label, seed)) for label in labels for seed in seeds]
    return list({cell.key: cell for cell in cells}.values())


def seeds_of(run_seed: int, count: int) -> list[int | None]:
    """The run's own seed (None), and others that no run is likely to have."""
    others = (derive_seed(run_seed, "compare", number) % 2**31 for number in range(1, count))
    return [None, *others]


def _labels(text: str) -> list[str]:
    """The labels in a list with commas; `all` is every method with its variants.

    A comma belongs to options where a key and a value follow it.

    >>> _labels("none,fine-tune:rounds=2,ascent=3,pfedul")
    ['none', 'fine-tune:rounds=2,ascent=3', 'pfedul']
    """
    parts = [part.strip() for part in re.split(r",(?!\s*[\w-]+=)", text)]
    if text.strip() and any(not part or part.startswith(",") for part in parts):
        raise PfedulError(f"A name is missing in '{text}'; put one comma between two methods.")
    every = [label for method in METHODS for label in (method.name, *method.about.variants)]
    return [label for part in parts if part for label in (every if part == ALL else [part])]


def options_of(label: str, seed: int | None = None) -> ForgetOptions:
    """The options of `forget` that a label stands for."""
    text = label.removesuffix(RECALIBRATE)
    name, colon, rest = text.partition(":")
    if colon and not rest.strip():
        raise PfedulError(
            f"No options stand behind the colon of '{label}'; write '{name}' or '{name}:KEY=VALUE'."
        )
    if METHODS[name.strip()].does.plans:
        options = _options_of_forget(name.strip(), text)
    else:
        options = ForgetOptions(method=text)
    return replace(options, seed=seed, recalibrate=text != label, allow_unchanged=True)


def _options_of_forget(name: str, text: str) -> ForgetOptions:
    """A method that plans takes the options of `forget` itself."""
    options: ForgetOptions = FreeName("method", ForgetOptions).parse(text)[1]
    usual = ForgetOptions()
    for other in ("method", "seed", "recalibrate", "allow_unchanged"):
        if getattr(options, other) != getattr(usual, other):
            raise PfedulError(f"The method '{name}' has no option '{other}' in a comparison.")
    return replace(options, method=name)


def needs_own_base(run: Run, method: Method) -> bool:
    """Whether the run was trained in another layout than the method needs."""
    return bool(method.needs.layout) and not run.clusters.several


@dataclass(frozen=True)
class Comparison:
    """What to compare; `workers` is the number of cells at a time, by default one per core.

    `in_turn`: the targets are forgotten one after another, and judged when all have left.
    """

    run: Run
    targets: tuple[str, ...]
    cells: Sequence[Cell]
    oracles: int = 2
    workers: int | None = None
    in_turn: bool = False

    @property
    def requests(self) -> tuple[tuple[str, ...], ...]:
        """The targets of each request."""
        return tuple((one,) for one in self.targets) if self.in_turn else (self.targets,)

    @property
    def remaining(self) -> list[str]:
        return [client for client in self.run.clients if client not in self.targets]

    def check(self) -> None:
        """Refuse what cannot be compared, before anything is trained."""
        check_ready(self.run, self.targets, "methods are compared")
        if self.oracles < 2:
            raise PfedulError("A comparison needs at least 2 oracles: their spread is its measure.")
        refusals = self.refusals
        if len(refusals) == len(self.cells):
            first, *others = dict.fromkeys(refusals.values())
            several = "No method that was asked for can be tried on this run; of the first: "
            raise PfedulError(f"{several if others else ''}{first}")

    @property
    def refusals(self) -> dict[str, str]:
        """Cells that cannot be tried on this run, each with the reason."""
        reasons = {}
        for cell in self.cells:
            if needs_own_base(self.run, cell.method):
                continue
            try:
                check_method(self.run, self.requests[0], cell.options, ())
            except PfedulError as error:
                reasons[cell.key] = str(error)
        return reasons


def budgeted_last(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Cells without and with a budget, which is known when the others are done."""
    first = [cell for cell in cells if not cell.method.does.budgeted]
    return first, [cell for cell in cells if cell.method.does.budgeted]


def with_budget(
    cell: Cell, cells: Sequence[Cell], results: Mapping[str, CellResult]
) -> ForgetOptions:
    """The options of a cell; one with a budget gets the CPU time that pFedUL took.

    Without a result of pFedUL with the same seed the method measures the time itself.
    """
    own = METHODS.parse(cell.options.method)[1]
    if not cell.method.does.budgeted or own.cpu_seconds is not None:
        return cell.options
    units = [results.get(c.key) for c in cells if c.label == UNIT and c.seed == cell.seed]
    sound = [unit for unit in units if unit is not None and unit["failure"] is None]
    if not sound:
        return cell.options
    budget = spent_by_method(stages_of(sound[0]["outcome"])).cpu_seconds
    return replace(cell.options, method=write(cell.method.name, replace(own, cpu_seconds=budget)))
