"""The page as Markdown: the same text and tables; pictures are described."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pfedul.report import blocks

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def as_markdown(page: blocks.Page) -> str:
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


def _banner(banner: blocks.Banner) -> list[str]:
    number = banner.figure and f"**{escaped(banner.figure.value)}** {escaped(banner.figure.words)}"
    facts = [f"**{escaped(name)}**: {escaped(words)}" for name, words in banner.facts]
    return [
        f"## Verdict: {escaped(banner.look.sign)} {escaped(banner.word)}",
        escaped(banner.meaning),
        number or "",
        escaped(banner.standing),
        *facts,
        *_listed("What is not claimed", banner.not_claimed),
        "### What to do next",
        *_steps(banner),
    ]


def _steps(banner: blocks.Banner) -> Iterator[str]:
    for step in banner.steps:
        yield escaped(step.words)
        yield from [_fenced("\n".join(step.commands))] if step.commands else []


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [f"### {title}", _bullets(items)] if items else []


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(item)}" for item in items)


def _section(section: blocks.Section) -> list[str]:
    return [f"## {escaped(section.title)}", *map(_block, section.blocks)]


def _block(block: blocks.Block) -> str:
    return _FORMS[type(block)](block)


def _fold(block: blocks.Fold) -> str:
    """Markdown folds nothing."""
    return "\n\n".join([f"### {escaped(block.title)}", *map(_block, block.blocks)])


def _table(block: blocks.Table) -> str:
    rules = ["---" if place < block.words else "---:" for place in range(len(block.head))]
    lines = [_row(map(escaped, block.head)), _row(rules)]
    lines += [_row(escaped(str(cell)) for cell in row) for row in block.rows]
    return f"{escaped(block.caption)}:\n\n" + "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _facts(block: blocks.FactList) -> str:
    return "\n".join(f"- **{escaped(name)}**: {escaped(value)}" for name, value in block.rows)


def _code(block: blocks.Code) -> str:
    return f"{escaped(block.caption)}:\n\n{_fenced(block.text.rstrip())}"


def _fenced(text: str) -> str:
    """In a fence that is longer than any in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _gallery(block: blocks.Gallery) -> str:
    notes = _bullets(f"{figure.title}. {figure.summary}" for figure in block.figures)
    return f"{escaped(block.caption)} (Pictures are in the HTML page; in words:)\n\n{notes}"


_FORMS: dict[type[blocks.Block], Callable[[Any], str]] = {
    blocks.Text: lambda block: escaped(block.text),
    blocks.Heading: lambda block: f"#### {escaped(block.text)}",
    blocks.Items: lambda block: _bullets(block.items),
    blocks.Link: lambda block: f"[{escaped(block.text)}]({block.target})",
    blocks.FactList: _facts,
    blocks.Table: _table,
    blocks.Code: _code,
    blocks.Gallery: _gallery,
    blocks.Fold: _fold,
}
