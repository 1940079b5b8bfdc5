"""The pages as HTML. Each is made of parts, which the browser exchanges when they change.

All text is escaped; control characters, and those that turn the direction of text, are shown.
The colours are those of the report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfedul.base.hashes import digest
from pfedul.base.text import cleaned, moment, percent, visible
from pfedul.dashboard.reading import View

OVERVIEW = ("runs",)
RUN = ("state", "requests", "evidence", "curves", "history")


class Part(NamedTuple):
    """A part of a page; another digest stands for another text."""

    name: str
    digest: str
    html: str


def overview_page(views: Sequence[View], base: str) -> str:
    """A card for each run."""
    return _page("overview.html", overview_parts(views, base), base, live=f"{base}/live")


def run_page(view: View, base: str) -> str:
    """All about one run."""
    live = f"{base}/runs/{view.number}/live"
    return _page("run.html", run_parts(view, base), base, live=live, view=view)


def overview_parts(views: Sequence[View], base: str) -> list[Part]:
    return [_part(name, base, views=views) for name in OVERVIEW]


def run_parts(view: View, base: str) -> list[Part]:
    """Of a run that cannot be read there is one part, which says why."""
    return [_part(name, base, view=view) for name in (RUN if view.content else RUN[:1])]


def as_json(parts: Sequence[Part]) -> str:
    return json.dumps([part._asdict() for part in parts])


def style() -> str:
    """The style of the report, and what the dashboard adds."""
    return "\n".join(
        files(package).joinpath("templates", "style.css").read_text(encoding="utf-8")
        for package in ("pfedul.report", "pfedul.dashboard")
    )


def script() -> str:
    return files("pfedul.dashboard").joinpath("templates", "live.js").read_text(encoding="utf-8")


def _part(name: str, base: str, **values: Any) -> Part:
    html = _render(f"part-{name}.html", base=base, **values)
    return Part(name, digest(html.encode(errors="replace"))[:16], html)


def _page(template: str, parts: Sequence[Part], base: str, **values: Any) -> str:
    return _render(template, parts=parts, base=base, **values)


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pfedul.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {"percent": percent, "moment": moment}
    return environment


def _shown(value: Any) -> Any:
    """Text that came from a run, or markup made by a template."""
    return value if isinstance(value, Markup) else visible(cleaned(str(value)))
