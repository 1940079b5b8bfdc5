"""The parts of a page, which each file format renders in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Text:
    """A paragraph. `tone` is "plain", "note" or "warning"."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Heading:
    """A title inside a section."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """A way to another file, relative to the page."""

    text: str
    target: str


@dataclass(frozen=True)
class FactList:
    """Names and values; `mono` if the values are hashes or code."""

    rows: tuple[tuple[str, str], ...]
    mono: bool = False


@dataclass(frozen=True)
class Table:
    """Rows with a header. The first `words` columns are text, the others figures."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1

    @staticmethod
    def of(caption: str, rows: Iterable[Mapping[str, str]], words: int = 1) -> Table:
        """From rows that map each column's title to its text."""
        items = list(rows)
        head = tuple(items[0]) if items else ()
        return Table(caption, head, tuple(tuple(row.values()) for row in items), words)


@dataclass(frozen=True)
class Code:
    """Text to be copied verbatim."""

    caption: str
    text: str


@dataclass(frozen=True)
class Picture:
    """One picture: `draw` is given an empty matplotlib figure of `size` pixels.

    `summary` describes the picture for those who cannot see it. A `wide` picture keeps its
    size on a narrow screen and scrolls. `remark` is a second line under the title.
    """

    title: str
    summary: str
    size: tuple[float, float]
    draw: Callable[[Any], None] = field(compare=False)
    wide: bool = False
    remark: str = ""


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side with one caption and one legend of series (see `style.py`).

    `lines`: the series are lines, which also differ by their dashes.
    """

    caption: str
    figures: tuple[Picture, ...]
    legend: tuple[str, ...] = ()
    lines: bool = False


Block = Text | Heading | Items | Link | FactList | Table | Code | Gallery


@dataclass(frozen=True)
class Section:
    """A part of the page with a title; `name` is its anchor."""

    name: str
    title: str
    blocks: tuple[Block, ...]

    @staticmethod
    def of(name: str, title: str, blocks: Iterable[Block]) -> Section:
        """Without blocks that have no content, and headings that nothing follows."""
        kept: list[Block] = []
        for block in reversed([block for block in blocks if _has_content(block)]):
            if not isinstance(block, Heading) or (kept and not isinstance(kept[-1], Heading)):
                kept.append(block)
        return Section(name, title, tuple(reversed(kept)))


def _has_content(block: Block) -> bool:
    match block:
        case Items(content) | FactList(content) | Gallery(_, content):
            return bool(content)
        case Table():
            return bool(block.rows)
    return True


@dataclass(frozen=True)
class Tile:
    """One figure of the first screen: its name, its value, and how to read it."""

    label: str
    value: str
    hint: str


@dataclass(frozen=True)
class Banner:
    """The verdict: a word, a sign and a colour that say the same, a sentence, and its limits.

    `tone` is "good", "mixed", "bad" or "unknown".
    """

    tone: str
    word: str
    meaning: str
    sentence: str
    standing: str
    claimed: tuple[str, ...]
    not_claimed: tuple[str, ...]
    needed: tuple[str, ...]
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    subtitle: str
    banner: Banner | None
    sections: tuple[Section, ...]
