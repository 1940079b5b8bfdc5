"""The parts of a page, which each file format renders in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfedul.audit.advice import Step
    from pfedul.report.looks import Cell, Look


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
    rows: tuple[tuple[str | Cell, ...], ...]
    words: int = 1

    @staticmethod
    def of(caption: str, rows: Iterable[Mapping[str, Any]], words: int = 1) -> Table:
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
    size on a narrow screen: it scrolls, or is replaced by `narrow`. `remark` is a second line
    under the title.
    """

    title: str
    summary: str
    size: tuple[float, float]
    draw: Callable[[Any], None] = field(compare=False)
    wide: bool = False
    narrow: Picture | None = None
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


@dataclass(frozen=True)
class Fold:
    """Details that a reader may open; on paper the title alone, unless it was opened."""

    title: str
    blocks: tuple[Block, ...]

    @staticmethod
    def of(title: str, *blocks: Block) -> Fold:
        return Fold(title, kept(blocks))


Block = Text | Heading | Items | Link | FactList | Table | Code | Gallery | Fold


@dataclass(frozen=True)
class Section:
    """A part of the page with a title; `name` is its anchor."""

    name: str
    title: str
    blocks: tuple[Block, ...]

    @staticmethod
    def of(name: str, title: str, blocks: Iterable[Block]) -> Section:
        return Section(name, title, kept(blocks))


def kept(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Without blocks that have no content, and headings that nothing follows."""
    found: list[Block] = []
    for block in reversed([block for block in blocks if _has_content(block)]):
        if not isinstance(block, Heading) or (found and not isinstance(found[-1], Heading)):
            found.append(block)
    return tuple(reversed(found))


def _has_content(block: Block) -> bool:
    match block:
        case Items(content) | FactList(content) | Gallery(_, content) | Fold(_, content):
            return bool(content)
        case Table():
            return bool(block.rows)
    return True


@dataclass(frozen=True)
class Figure:
    """The one number of the first page, and what it is in plain words."""

    value: str
    words: str


@dataclass(frozen=True)
class Banner:
    """The first page: the verdict with its number, what was done and what it cost, what to do.

    `facts` are questions with their answers; `standing` says what the verdict is about.
    """

    look: Look
    word: str
    meaning: str
    standing: str
    figure: Figure | None
    facts: tuple[tuple[str, str], ...]
    not_claimed: tuple[str, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    subtitle: str
    banner: Banner | None
    sections: tuple[Section, ...]
