"""Ways of the dashboard: numbers of runs and fixed names. No way is ever the path of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from pfedul.dashboard import pages
from pfedul.dashboard.reading import Reader, View
from pfedul.errors import PfedulError
from pfedul.store.folder import require_run
from pfedul.store.paths import LEDGER_FILE

NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
POLICY = (
    NOTHING_ELSE + "script-src 'self'; connect-src 'self'; style-src 'self'; "
    "style-src-attr 'unsafe-inline'"
)
"""Own script, own style, own answers, and nothing else; pictures have colours in attributes."""

REPORT_POLICY = NOTHING_ELSE + "style-src 'unsafe-inline'"
"""A report is one file with its style inside, and has no script."""


class Answer(NamedTuple):
    """What is sent back; `policy` is what the browser may load for it."""

    kind: str
    text: str
    policy: str = POLICY


class NotThereError(PfedulError):
    """No page has this address."""


class Dashboard:
    """Owns the readers of all runs. A run keeps its number for as long as the dashboard lives."""

    def __init__(self, places: Sequence[Path]) -> None:
        """`places`: run folders, and folders of run folders, in which new runs may appear."""
        self._places = list(places)
        self._readers: dict[Path, Reader] = {}
        self._lock = Lock()
        for place in places:
            if not _runs_in(place):
                require_run(place)
        self._find()

    @property
    def runs(self) -> list[Path]:
        """The run folders that are shown."""
        return list(self._readers)

    def _find(self) -> None:
        for path in (run for place in self._places for run in _runs_in(place)):
            if path not in self._readers:
                self._readers[path] = Reader(len(self._readers) + 1, path)

    def answer(self, way: str, base: str) -> Answer:
        """What is at this way below `base`; one after the other, as pictures are drawn for it."""
        with self._lock:
            self._find()
            return self._answer(way.split("/"), base)

    def _answer(self, way: Sequence[str], base: str) -> Answer:
        match way:
            case [""]:
                return _html(pages.overview_page(self._views(), base))
            case ["live"]:
                return _json(pages.as_json(pages.overview_parts(self._views(), base)))
            case ["style.css"]:
                return Answer("text/css", pages.style())
            case ["live.js"]:
                return Answer("text/javascript", pages.script())
            case ["runs", number, *page]:
                return _of_run(self._reader(number), page, base)
        raise NotThereError(_NO_PAGE)

    def _views(self) -> list[View]:
        return [reader.view() for reader in self._readers.values()]

    def _reader(self, number: str) -> Reader:
        readers, place = list(self._readers.values()), _number(number)
        if place > len(readers):
            raise NotThereError("There is no such run.")
        return readers[place - 1]


_NO_PAGE = "There is no such page."


def _of_run(reader: Reader, page: Sequence[str], base: str) -> Answer:
    match page:
        case []:
            return _html(pages.run_page(reader.view(), base))
        case ["live"]:
            return _json(pages.as_json(pages.run_parts(reader.view(), base)))
        case ["report"]:
            return _report(reader, None)
        case ["report", request]:
            return _report(reader, _number(request))
    raise NotThereError(_NO_PAGE)


def _runs_in(place: Path) -> list[Path]:
    """The folder itself if it is a run, or the runs that are directly in it."""
    if (place / LEDGER_FILE).is_file():
        return [place]
    return sorted(file.parent for file in place.glob(f"[!.]*/{LEDGER_FILE}"))


def _number(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise NotThereError(_NO_PAGE)
    return int(text)


def _html(text: str) -> Answer:
    return Answer("text/html", text)


def _json(text: str) -> Answer:
    return Answer("application/json", text)


def _report(reader: Reader, request: int | None) -> Answer:
    return Answer("text/html", reader.report(request), REPORT_POLICY)
