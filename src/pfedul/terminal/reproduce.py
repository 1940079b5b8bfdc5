"""Experiments in the terminal: the list, the price, one bar over everything, the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedul.experiments.base import Experiment
from pfedul.experiments.document import Document
from pfedul.experiments.pages import CLAIM_HEAD, claim_texts, grids, notes, remark, title
from pfedul.experiments.price import Price, sentence
from pfedul.experiments.scales import SCALES, preset_names
from pfedul.terminal.console import ProgressLog, error_console, line, share_bar, table, waiting

if TYPE_CHECKING:
    from pfedul.experiments.reproduce import OnProgress


def listed(experiments: Iterable[Experiment]) -> dict[str, object]:
    """The experiments and the scales as plain data."""
    rows = [{"name": e.name, "summary": e.summary, "source": e.source} for e in experiments]
    return {"experiments": rows, "scales": SCALES, "presets": preset_names()}


def print_list(experiments: Iterable[Experiment]) -> None:
    rows = [
        {"name": e.name, "what it shows": e.summary, "in the paper": e.source or "(ours)"}
        for e in experiments
    ]
    table("experiments", rows)
    table("scales", [{"name": name, "what it is": words} for name, words in SCALES.items()])
    line(f"Presets for 'pfedul train --config': {', '.join(preset_names())}")


def timing() -> AbstractContextManager[None]:
    return waiting("Timing a short training")


def print_price(price: Price, names: Sequence[str]) -> None:
    """On stderr, so --json stays clean."""
    error_console.print(sentence(price, names), markup=False, soft_wrap=True)


@contextmanager
def progress() -> Iterator[OnProgress]:
    """One bar over all cases, with the time left."""
    log = ProgressLog()
    with share_bar(disable=log.active) as bar:
        task = bar.add_task("", total=None, now="")

        def show(done: float, of: int, now: str) -> None:
            words = f"case {min(int(done) + 1, of)} of {of}"
            log(f"{words}  {done / of:.1%}  {now}")
            bar.update(task, description=words, completed=done, total=of, now=now)

        yield show


def _plain(claim: Mapping[str, Any]) -> dict[str, str]:
    texts = (text.replace("**", "") for text in claim_texts(claim))
    return dict(zip(CLAIM_HEAD, texts, strict=True))


def print_documents(documents: Sequence[Document], folder: Path) -> None:
    """Every table, and where the files are."""
    for document in documents:
        line(f"\n{title(document)}")
        for part, (head, *rows) in grids(document).items():
            table(part, [dict(zip(head, row, strict=True)) for row in rows])
        if document["claims"]:
            table("what the paper says", [_plain(claim) for claim in document["claims"]])
        for text in (remark(document).replace("**", ""), *notes(document)):
            line(text)
    line(f"\nFiles: {folder}")
