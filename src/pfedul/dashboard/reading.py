"""What a run folder says, read as `status` and `report` read it: nothing is locked or written.

Reading is worth a moment's work, so it is done again only when the ledger or the configuration
has changed. What cannot be read is said in a sentence, for this run alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pfedul.base.text import cleaned, moment
from pfedul.dashboard.curves import learning_curves
from pfedul.dashboard.history import Event, events_of
from pfedul.dashboard.requests import RequestRow, request_row
from pfedul.dashboard.verdicts import Finding, State, finding_of, verdict_state
from pfedul.dashboard.work import Work, work_on
from pfedul.errors import PfedulError
from pfedul.report.formats import as_html
from pfedul.report.material import read_material
from pfedul.report.page import report_content
from pfedul.store.attested import read_chain
from pfedul.store.folder import absolute, require_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE, SETTINGS_FILE, certificate_file
from pfedul.store.soundness import content_of


@dataclass(frozen=True)
class Content:
    """What the ledger said after one commit; `finding` is about the newest removal."""

    status: Mapping[str, Any]
    finding: Finding
    events: list[Event]

    @cached_property
    def curves(self) -> list[tuple[str, str]]:
        """Drawn when they are first looked at."""
        return learning_curves(self.status)


@dataclass(frozen=True)
class View:
    """A run as it is shown: what could be read, or the sentence that says why not."""

    number: int
    name: str
    place: str
    error: str = ""
    content: Content | None = None
    work: Work | None = None
    written_at: str = ""
    requests: tuple[RequestRow, ...] = ()
    audits: tuple[tuple[Mapping[str, Any], State], ...] = ()
    certificates: tuple[tuple[int, str], ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there is a request, an audit or a change by somebody else: else no verdict."""
        chain = (self.content.status["chain"] if self.content else None) or {"wrong": ()}
        return bool(self.requests or self.audits or chain["wrong"])


class Reader:
    """Reads one run, and keeps what it read until the run changes."""

    def __init__(self, number: int, path: Path) -> None:
        self.path = path
        self._blank = View(number, absolute(path).name, str(path))
        self._version: object = None
        self._content: Content | None = None

    def view(self) -> View:
        """The run as it is now."""
        try:
            with _sentences(self.path):
                return self._view()
        except PfedulError as error:
            return replace(self._blank, error=str(error))

    def _view(self) -> View:
        require_run(self.path)
        content, today = self._newest(), datetime.now(UTC).date()
        return replace(
            self._blank,
            content=content,
            work=work_on(self.path),
            written_at=_written_at(self.path / LEDGER_FILE),
            requests=_requests(content.status, today),
            audits=tuple((a, verdict_state(a["verdict"])) for a in content.status["audits"]),
            certificates=_certificates(self.path, content.status),
        )

    def _newest(self) -> Content:
        version = _version(self.path)
        if self._content is None or version != self._version:
            self._content, self._version = _read(self.path), version
        return self._content

    def report(self, request: int | None) -> str:
        """The report on a removal, or on the newest, as HTML; raises if there is none."""
        with _sentences(self.path):
            return as_html(report_content(read_material(self.path, request)))


@contextmanager
def _sentences(run: Path) -> Iterator[None]:
    """Turn all that a foreign or damaged run makes fail into one sentence."""
    try:
        with content_of(run):
            yield
    except OSError as error:
        raise PfedulError(f"{run} cannot be read ({error.strerror}).") from None


def _read(run: Path) -> Content:
    material = cleaned(read_material(run))
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        events = events_of(read_chain(ledger))
    return Content(material["run"], finding_of(report_content(material)), events)


def _version(run: Path) -> object:
    """Other whenever ledger or configuration are: SQLite counts commits in the header."""
    with (run / LEDGER_FILE).open("rb") as file:
        header = file.read(28)
    places = ((run / name).stat() for name in (LEDGER_FILE, SETTINGS_FILE))
    return header, [(place.st_ino, place.st_size, place.st_mtime_ns) for place in places]


def _written_at(file: Path) -> str:
    return moment(datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds"))


def _requests(status: Mapping[str, Any], today: date) -> tuple[RequestRow, ...]:
    """The newest first."""
    return tuple(request_row(request, today) for request in reversed(status["requests"]))


def _certificates(run: Path, status: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """Finished requests, and the file of the certificate of each; "" if none was written."""
    rows = ((row["request"], row["status"]) for row in status["requests"])
    names = ((number, certificate_file(number)) for number, state in rows if state == "done")
    return tuple((number, name if (run / name).is_file() else "") for number, name in names)
