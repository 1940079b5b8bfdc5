"""The page as one HTML file: no network, no scripts, pictures inline."""

from __future__ import annotations

from itertools import count

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfedul.report.blocks import Figure, Page
from pfedul.report.style import SERIES
from pfedul.report.svg import render


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
