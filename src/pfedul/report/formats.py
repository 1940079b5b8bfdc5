"""A report as a file, in the format that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.report.html import as_html
from pfedul.report.markdown import as_markdown
from pfedul.report.page import report_content
from pfedul.report.view import Json


@dataclass(frozen=True)
class Format:
    """A format: how its files are called, what it is for, how it is made."""

    name: str
    file_name: str
    summary: str
    render: Callable[[Json], str]


def _as_json(material: Json) -> str:
    try:
        return json.dumps(material, indent=2, sort_keys=True, allow_nan=False) + "\n"
    except ValueError:
        raise PfedulError(
            "The material has a figure that is not a number; measure it again."
        ) from None


FORMATS = {
    entry.name: entry
    for entry in (
        Format(
            "html",
            "report.html",
            "one page for people; opens from disk",
            lambda material: as_html(report_content(material)),
        ),
        Format(
            "md",
            "report.md",
            "the same words and tables as Markdown",
            lambda material: as_markdown(report_content(material)),
        ),
        Format("json", "report.json", "the figures, for programs", _as_json),
        Format(
            "pdf-ready",
            "report-print.html",
            "the page laid out for A4 paper; print it from a browser to get a PDF",
            lambda material: as_html(report_content(material), paper=True),
        ),
    )
}


def write_report(material: Json, format: str, path: Path) -> None:
    """Write the report of `material` to `path`; the same material gives the same bytes."""
    if format not in FORMATS:
        raise PfedulError(f"There is no format '{format}'; there are: {', '.join(FORMATS)}.")
    text = FORMATS[format].render(material)
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise PfedulError(f"The report cannot be written to {path}: {error.strerror}.") from None
