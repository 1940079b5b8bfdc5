"""Cases: one training and who leaves it, with the results of all methods from that checkpoint.

A case is what experiments share: Tables 4, 5 and 8 and Figure 3 read the same cases. Its results
are one small JSON file, written as soon as the case is finished. They are found again by what
decides them: settings, seed, who leaves, how many oracles.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pfedul.base.hashes import digest
from pfedul.compare.folder import write_json
from pfedul.errors import PfedulError
from pfedul.experiments.base import RETRAINED, UNTOUCHED, Experiment, Group
from pfedul.experiments.scales import scale_settings
from pfedul.settings import fixed, from_mapping
from pfedul.store.folder import own_errors

FORMAT = 1
Results = dict[str, Any]

AGAIN = {"again": True}
"""Of a row: what ended it was not its method, but a kill or a lack of memory."""

_RECORDING = ("record", "fisher_beta", "fisher_noise", "psi_epsilon", "psi_sigma", "psi_delta")
"""Settings that decide what training keeps, and not what it computes."""


@dataclass(frozen=True)
class Scale:
    """How large, how often, against how many oracles, and in which precision."""

    name: str = "cpu"
    seeds: int = 5
    oracles: int = 2
    precision: str = "float32"


@dataclass(frozen=True)
class Case:
    """One training, and who leaves it."""

    settings: Mapping[str, Any]
    leaving: int
    in_turn: bool
    first: bool
    oracles: int

    @property
    def name(self) -> str:
        """Readable, and different for different cases."""
        how = f"-{self.leaving}{'-in-turn' if self.in_turn else ''}"
        return self._named(how, {**asdict(self), "settings": self._decisive()})

    @property
    def federation(self) -> str:
        """The same for all cases that branch from one training, whoever leaves."""
        return self._named("", self._decisive())

    def _named(self, how: str, decides: Mapping[str, Any]) -> str:
        key = digest(json.dumps(decides, sort_keys=True).encode())[:8]
        chosen = self.settings
        data = str(chosen["data"]).partition(":")[0]
        return f"{data}-{chosen['personalization']}{how}-seed{chosen['seed']}-{key}"

    def _decisive(self) -> dict[str, Any]:
        settings = from_mapping(dict(self.settings), "the scale")
        values = {**fixed(settings), "rounds": settings.rounds}
        return {key: value for key, value in values.items() if key not in _RECORDING}


def settings_of(group: Group, scale: str) -> dict[str, Any]:
    """The settings of a group's federation, its seed left open."""
    own = {"personalization": group.personalization, **group.changes}
    return {**scale_settings(scale, group.data), **own}


def case_of(group: Group, scale: Scale, seed: int) -> Case:
    settings = {**settings_of(group, scale.name), "seed": seed, "precision": scale.precision}
    return Case(settings, group.leaving, group.in_turn, group.first, scale.oracles)


Wanted = list[tuple[Case, list[str]]]
"""Cases, each with the methods that are asked for."""


def cases_of(experiments: Sequence[Experiment], scale: Scale, only: Sequence[str] = ()) -> Wanted:
    """The cases of these experiments, each once; with `only`, those whose place fits one of these.

    Experiments with few federations come first, and an experiment with all its seeds before the
    next: so tables are finished one by one, and the cheap ones soon.
    """
    wanted: dict[str, tuple[Case, list[str]]] = {}
    for one in sorted(experiments, key=lambda one: len(one.groups)):
        for seed in range(scale.seeds):
            for group in one.groups if one.direct is None else ():
                if only and not any(map(place_of(group, seed).__contains__, only)):
                    continue
                case = case_of(group, scale, seed)
                methods = wanted.setdefault(case.name, (case, []))[1]
                methods.extend(name for name in one.methods if name not in methods)
    return list(wanted.values())


def place_of(group: Group, seed: int) -> str:
    """Where a training stands among those of an experiment, such as cifar10/fedrep/FedRep/seed0."""
    return f"{group.data}/{group.personalization}/{group.name}/seed{seed}"


# Results on disk


class Shelf:
    """Where the results of cases are kept: FOLDER/cells, a file for each case."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _file(self, case: Case) -> Path:
        return self.folder / "cells" / f"{case.name}.json"

    def read(self, case: Case) -> Results | None:
        """The results of a case, or None."""
        file = self._file(case)
        if not file.is_file():
            return None
        try:
            results: Results = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            raise PfedulError(
                f"The file {file} is damaged; delete it, and the case is worked out again."
            ) from None
        return results if results.get("format") == FORMAT else None

    def write(self, case: Case, results: Mapping[str, Any]) -> None:
        """Keep the results of a case; methods that it had before stay."""
        before = (self.read(case) or {}).get("methods", {})
        methods = {**before, **results["methods"]}
        with own_errors(self.folder):
            self._file(case).parent.mkdir(parents=True, exist_ok=True)
        write_json(self._file(case), _rounded({"format": FORMAT, **results, "methods": methods}))

    def missing(self, case: Case, methods: Iterable[str]) -> list[str]:
        """The methods that this case has no result of, or one that is to be tried again."""
        known = (self.read(case) or {}).get("methods", {})
        return [name for name in methods if known.get(name, AGAIN).get("again")]

    def open(self, case: Case, methods: Iterable[str]) -> bool:
        """Whether anything of this case is missing; references are there with the first method."""
        return self.read(case) is None or bool(self.missing(case, methods))


def rows_of(results: Mapping[str, Any], method: str) -> list[Mapping[str, Any]]:
    """The figures of a row in one case: one for a method, one for each oracle of retraining."""
    if method == UNTOUCHED:
        return [results["untouched"]]
    if method == RETRAINED:
        return list(results["oracles"])
    row = results["methods"].get(method)
    return [row] if row and not row.get("failure") else []


def _rounded(value: Any) -> Any:
    """Numbers to six digits: nobody reads more, and files stay small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
