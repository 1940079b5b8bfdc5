"""Reproduces experiments: works out the cases that are missing, one by one, then writes the files.

An interruption loses nothing that is finished: results of a case are written as soon as it is,
and an unfinished one resumes from its run folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pfedul.experiments.base import Experiment
from pfedul.experiments.cases import Scale, Shelf, Wanted, cases_of
from pfedul.experiments.document import Document, document_of
from pfedul.experiments.pages import write_files
from pfedul.experiments.price import Price, price_of
from pfedul.experiments.working import Workplace, work_out

OnProgress = Callable[[float, int, str], None]
"""Called with the cases that are done (a fraction is of the present one), all cases, and what is
being done."""


@dataclass(frozen=True)
class Reproduction:
    """What to reproduce, how large, and where its files are kept.

    `keep_runs`: the run folders of finished cases stay, which takes much room.
    """

    experiments: Sequence[Experiment]
    scale: Scale
    folder: Path
    data_root: str | None = None
    workers: int | None = None
    keep_runs: bool = False

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.folder)

    @property
    def wanted(self) -> Wanted:
        return cases_of(self.experiments, self.scale)

    def price(self) -> Price:
        """What is left to do, and about how long it takes."""
        return price_of(self.wanted, self.shelf, self.data_root)


def reproduce(reproduction: Reproduction, on_progress: OnProgress) -> list[Document]:
    """Work out what is missing; returns a document for each experiment, written to its files."""
    shelf = reproduction.shelf
    left = [
        (case, missing)
        for case, methods in reproduction.wanted
        if (missing := shelf.missing(case, methods)) or shelf.read(case) is None
    ]
    place = Workplace(reproduction.folder / "runs", reproduction.data_root, reproduction.workers)
    for number, (case, methods) in enumerate(left):

        def on_case(what: str, share: float, number: int = number, name: str = case.name) -> None:
            on_progress(number + share, len(left), f"{name}  {what}")

        shelf.write(case, work_out(case, methods, place, on_case))
        if not reproduction.keep_runs:
            shutil.rmtree(place.runs, ignore_errors=True)
        publish(reproduction)
    return publish(reproduction)


def publish(reproduction: Reproduction) -> list[Document]:
    """Write the files of all experiments, as complete as they are."""
    documents = [
        document_of(one, reproduction.scale, reproduction.shelf) for one in reproduction.experiments
    ]
    for document in documents:
        write_files(document, reproduction.folder)
    return documents
