"""Reproduces experiments: works out the cases that are missing, one by one, then writes the files.

An interruption loses nothing that is finished: results of a case are written as soon as it is,
and an unfinished one resumes from its run folder. Several processes may share a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError
from pfedul.experiments import EXPERIMENTS
from pfedul.experiments.base import Experiment
from pfedul.experiments.cases import Case, Scale, Shelf, Wanted, cases_of, place_of
from pfedul.experiments.document import Document, document_of
from pfedul.experiments.pages import write_files
from pfedul.experiments.price import Price, price_of
from pfedul.experiments.sharing import Sharing, sharing_of
from pfedul.experiments.working import Workplace, work_out

OnProgress = Callable[[float, int, str], None]
"""Called with the cases that are done (a fraction is of the present one), all cases, and what is
being done."""


@dataclass(frozen=True)
class Reproduction:
    """What to reproduce, how large, and where its files are kept.

    `how` are settings of runs that decide nothing: data_root, device, workers. `only` are parts of
    places (`place_of`): other trainings are left as they are. `keep_runs`: the run folders of
    federations that nothing more is asked of stay as well.
    """

    experiments: Sequence[Experiment]
    scale: Scale
    folder: Path
    how: Mapping[str, Any] = field(default_factory=dict)
    keep_runs: bool = False
    only: Sequence[str] = ()

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.folder)

    @cached_property
    def wanted(self) -> Wanted:
        wanted = cases_of(self.experiments, self.scale, self.only)
        if self.only and not wanted:
            groups = [group for one in self.experiments for group in one.groups]
            known = ", ".join(dict.fromkeys(place_of(group, 0) for group in groups))
            raise PfedulError(f"No training has '{', '.join(self.only)}' in its name: {known}.")
        return wanted

    @cached_property
    def sharing(self) -> Sharing:
        """All that is known counts, not only what is asked for now: the next call may."""
        return sharing_of([*EXPERIMENTS, *self.experiments], self.scale, self.folder / "runs")

    def price(self) -> Price:
        """What is left to do, and about how long it takes."""
        return price_of(self.wanted, self.shelf, self.sharing, self.how)


def reproduce(reproduction: Reproduction, on_progress: OnProgress) -> list[Document]:
    """Work out what is missing; returns a document for each experiment, written to its files."""
    shelf, sharing = reproduction.shelf, reproduction.sharing
    left = {case.name: names for case, names in reproduction.wanted if shelf.open(case, names)}
    cases = [case for case, _ in reproduction.wanted if case.name in left]
    with closing(sharing.free_cases(cases)) as free:
        for number, case in enumerate(free):

            def on_case(what: str, share: float, now: int = number, name: str = case.name) -> None:
                on_progress(now + share, len(cases), f"{name}  {what}")

            if shelf.open(case, left[case.name]):  # another process may have done it meanwhile
                methods = shelf.missing(case, left[case.name])
                shelf.write(case, work_out(case, methods, _place(reproduction, case), on_case))
            if not reproduction.keep_runs:
                sharing.tidy(case, shelf)
            publish(reproduction)
    return publish(reproduction)


def _place(reproduction: Reproduction, case: Case) -> Workplace:
    sharing = reproduction.sharing
    return Workplace(sharing.run_of(case), sharing.record(case), reproduction.how)


def publish(reproduction: Reproduction) -> list[Document]:
    """Write the files of all experiments, as complete as they are."""
    with reproduction.sharing.lock("tables"):
        documents = [
            document_of(one, reproduction.scale, reproduction.shelf)
            for one in reproduction.experiments
        ]
        for document in documents:
            write_files(document, reproduction.folder)
    return documents
