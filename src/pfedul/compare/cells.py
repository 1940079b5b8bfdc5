"""Cells: which methods are compared, with which options and seeds, and how users name them.

`federaser`, `fine-tune:rounds=5,lr=0.05` and, for pFedUL, the options of `forget`:
`pfedul:correction=reset,fraction=0.3`. `NAME+recalibrate` lets the remaining clients
recalibrate afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from pfedul.base.options import option_name, plain_type
from pfedul.base.randomness import derive_seed
from pfedul.base.tensorfile import digest
from pfedul.errors import PfedulError
from pfedul.unlearn.base import Method
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions

ALL = "all"
RECALIBRATE = "+recalibrate"


@dataclass(frozen=True)
class Cell:
    """One method with its options and one seed; `label` is how it was asked for."""

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


def cells_of(wishes: Iterable[str], seeds: Sequence[int | None]) -> list[Cell]:
    """The cells that are asked for, each once, in the order in which they are."""
    labels = dict.fromkeys(label for wish in wishes for label in _expanded(wish))
    if not labels:
        raise PfedulError("Name at least one method, or 'all'; see 'pfedul methods'.")
    cells = {
        cell.key: cell
        for label in labels
        for seed in seeds
        for cell in [Cell(label, options_of(label, seed))]
    }
    return list(cells.values())


def seeds_of(run_seed: int, count: int) -> list[int | None]:
    """The run's own seed, and others that no run is likely to have."""
    further = (derive_seed(run_seed, "compare", number) % 2**31 for number in range(1, count))
    return [None, *further]


def _expanded(wish: str) -> list[str]:
    """A list with commas as its parts, and `all` as every method with its variants.

    A comma belongs to options where a key and a value follow it.

    >>> _expanded("none,fine-tune:rounds=2,ascent=3,pfedul")
    ['none', 'fine-tune:rounds=2,ascent=3', 'pfedul']
    """
    parts = [part.strip() for part in re.split(r",(?!\s*[\w-]+=)", wish)]
    if wish.strip() and any(not part or part.startswith(",") for part in parts):
        raise PfedulError(f"A name is missing in '{wish}'; put one comma between two methods.")
    every = [label for method in METHODS for label in (method.name, *method.about.variants)]
    return [label for part in parts if part for label in (every if part == ALL else [part])]


def options_of(label: str, seed: int | None = None) -> ForgetOptions:
    """The options of `forget` that a label stands for."""
    text = label.removesuffix(RECALIBRATE)
    further: dict[str, Any] = {"recalibrate": True} if text != label else {}
    name, colon, rest = text.partition(":")
    if colon and not rest.strip():
        raise PfedulError(
            f"No options stand behind the colon of '{label}'; write '{name}' or '{name}:KEY=VALUE'."
        )
    if name.strip() == "pfedul":
        return ForgetOptions(**_forget_values(rest), **further, seed=seed)
    return ForgetOptions(method=text, **further, seed=seed)


def _forget_values(text: str) -> dict[str, Any]:
    kinds = {spec.name: plain_type(spec) for spec in fields(ForgetOptions)}
    values: dict[str, Any] = {}
    for item in (part.strip() for part in text.split(",") if part.strip()):
        key, _, value = item.partition("=")
        name = key.replace("-", "_")
        if name not in kinds or name in {"method", "seed", "recalibrate"}:
            raise PfedulError(f"pfedul has no option '{key}'; it takes those of 'pfedul forget'.")
        values[name] = _converted(name, value, kinds[name])
    return values


def _converted(name: str, value: str, kind: str) -> Any:
    if kind == "bool":
        return _yes_or_no(name, value)
    try:
        return {"int": int, "float": float, "str": str}[kind](value)
    except ValueError:
        raise PfedulError(f"{option_name(name)} takes a number, not '{value}'.") from None


def _yes_or_no(name: str, value: str) -> bool:
    words = {"": True, "yes": True, "true": True, "1": True}
    words |= {"no": False, "false": False, "0": False}
    if value.lower() not in words:
        raise PfedulError(f"{option_name(name)} takes yes or no, not '{value}'.")
    return words[value.lower()]
