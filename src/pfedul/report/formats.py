"""A report as a file, in the format that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfedul.errors import PfedulError
from pfedul.report.blocks import Figure, Page
from pfedul.report.markdown import as_markdown
from pfedul.report.material import Json
from pfedul.report.page import report_content
from pfedul.report.style import SERIES
from pfedul.report.svg import render


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


def as_html(page: Page, paper: bool = False) -> str:
    """`paper`: light colours and the layout of print, on the screen as well."""
    template = _environment().get_template("page.html")
    numbers = count(1)

    def picture(figure: Figure) -> Markup:
        # Made by us from escaped text: the only markup that the template takes as it is.
        return Markup(render(figure, f"f{next(numbers)}"))

    return template.render(page=page, paper=paper, picture=picture, series=SERIES)


def _environment() -> Environment:
    """Every value is escaped: names of clients are text of strangers."""
    return Environment(
        loader=PackageLoader("pfedul.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


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
