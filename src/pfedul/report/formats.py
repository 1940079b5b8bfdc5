"""File formats of a report: HTML, Markdown, JSON, and PDF."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfedul.errors import PfedulError
from pfedul.report.blocks import Page, Picture
from pfedul.report.browser import find_browser, print_pdf
from pfedul.report.markdown import as_markdown
from pfedul.report.material import Json, read_material
from pfedul.report.page import report_content
from pfedul.report.picture import save_picture
from pfedul.report.removals import removals_of
from pfedul.report.style import SERIES
from pfedul.report.svg import render
from pfedul.store.folder import absolute, locked, require_run
from pfedul.store.paths import REPORTS


def _as_json(material: Json) -> str:
    try:
        return json.dumps(material, indent=2, sort_keys=True, allow_nan=False) + "\n"
    except ValueError:
        raise PfedulError(
            "The material has a figure that is not a number; measure it again."
        ) from None


def as_html(page: Page) -> str:
    """One HTML file without network access or scripts, with inline pictures."""
    template = _environment().get_template("page.html")
    numbers = count(1)

    def picture(figure: Picture) -> Markup:
        # Made here from escaped text: the only markup that the template does not escape.
        return Markup(render(figure, f"f{next(numbers)}"))

    return template.render(page=page, picture=picture, series=SERIES)


def _environment() -> Environment:
    """Every value is escaped: client names are untrusted text."""
    return Environment(
        loader=PackageLoader("pfedul.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page(material: Json) -> str:
    return as_html(report_content(material))


FORMATS: dict[str, tuple[str, Callable[[Json], str]]] = {
    "html": ("report.html", _page),
    "md": ("report.md", lambda material: as_markdown(report_content(material))),
    "json": ("report.json", _as_json),
    "pdf": ("report.pdf", _page),
}
"""Name -> the file in RUN/reports, and the function that renders it; `pdf` is printed then."""


def write_report(
    run: Path,
    form: str,
    request: int | None = None,
    output: Path | None = None,
    picture: Path | None = None,
    *,
    held: bool = False,
) -> Path:
    """Write the report of a run to `output`, or to a file in RUN/reports; returns the path.

    The picture of `picture.py` is saved first, if a place for it is given.

    A removal erases RUN/reports. So what goes into the run folder is read and written under the
    run's lock: otherwise a page about a removed client could appear after its removal. `held`: the
    caller has the lock.
    """
    require_run(run)
    path = output or run / REPORTS / _format(form)[0]
    if form == "pdf":
        find_browser()
    places = [path] if picture is None else [path, picture]
    inside = any(absolute(place).is_relative_to(absolute(run)) for place in places)
    with locked(run) if inside and not held else nullcontext():
        material = read_material(run, request)
        _link_certificate(material, run, path)
        if picture is not None:
            save_picture(removals_of(run, request), picture)
        with _refusing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_material(material, form, path)
    return path


def _link_certificate(material: Json, run: Path, path: Path) -> None:
    """Note the way from the page to the certificate, if there is one."""
    done = material.get("request") or {}
    if done.get("certificate"):
        way = os.path.relpath(absolute(run) / done["certificate"], absolute(path.parent))
        done["certificate_link"] = quote(Path(way).as_posix())


def write_material(material: Json, form: str, path: Path) -> None:
    """Write a report of this material; but for a PDF the same material gives the same bytes."""
    text = _format(form)[1](material)
    with _refusing(path):
        if form == "pdf":
            print_pdf(text, path)
        else:
            path.write_text(text, encoding="utf-8", newline="\n")


def _format(name: str) -> tuple[str, Callable[[Json], str]]:
    if name not in FORMATS:
        raise PfedulError(f"There is no format '{name}'; there are: {', '.join(FORMATS)}.")
    return FORMATS[name]


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PfedulError(f"The report cannot be written to {path}: {error.strerror}.") from None
