"""The page as Markdown: the same text and tables; pictures are described."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pfedul.report.blocks import (
    Banner,
    Block,
    Code,
    FactList,
    Gallery,
    Heading,
    Items,
    Page,
    Section,
    Table,
    Text,
)

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def as_markdown(page: Page) -> str:
    """Text with tables, readable as it is and when rendered."""
    parts = [f"# {escaped(page.title)}", escaped(page.subtitle)]
    parts += [] if page.banner is None else _banner(page.banner)
    for section in page.sections:
        parts += _section(section)
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """Text with the special characters of Markdown escaped.

    >>> escaped("<b>*x*|y")
    '&lt;b&gt;\\\\*x\\\\*\\\\|y'
    """
    plain = "".join(_HTML.get(letter, letter) for letter in " ".join(text.split()))
    return _SPECIAL.sub(r"\\\1", plain)


def _banner(banner: Banner) -> list[str]:
    tiles = [f"{tile.label}: {tile.value} ({tile.hint})" for tile in banner.tiles]
    return [
        f"## Verdict: {escaped(banner.word)}",
        f"**{escaped(banner.sentence)}**",
        escaped(banner.meaning),
        escaped(banner.standing),
        _bullets(tiles),
        *_listed("What is claimed", banner.claimed),
        *_listed("What is not claimed", banner.not_claimed),
        *_listed("What more would need", banner.needed),
    ]


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [f"### {title}", _bullets(items)] if items else []


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(item)}" for item in items)


def _section(section: Section) -> list[str]:
    blocks = [_FORMS[type(block)](block) for block in section.blocks]
    return [f"## {escaped(section.title)}", *blocks]


def _table(block: Table) -> str:
    rules = ["---" if place < block.words else "---:" for place in range(len(block.head))]
    lines = [_row(map(escaped, block.head)), _row(rules)]
    lines += [_row(map(escaped, row)) for row in block.rows]
    return f"{escaped(block.caption)}:\n\n" + "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _facts(block: FactList) -> str:
    return "\n".join(f"- **{escaped(name)}**: {escaped(value)}" for name, value in block.rows)


def _code(block: Code) -> str:
    longest = max(map(len, re.findall(r"`+", block.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{escaped(block.caption)}:\n\n{fence}\n{block.text.rstrip()}\n{fence}"


def _gallery(block: Gallery) -> str:
    notes = [f"{figure.title}. {figure.summary}" for figure in block.figures]
    return (
        f"{escaped(block.caption)} (Pictures are in the HTML page; in words:)\n\n{_bullets(notes)}"
    )


_FORMS: dict[type[Block], Callable[[Any], str]] = {
    Text: lambda block: escaped(block.text),
    Heading: lambda block: f"### {escaped(block.text)}",
    Items: lambda block: _bullets(block.items),
    FactList: _facts,
    Table: _table,
    Code: _code,
    Gallery: _gallery,
}
