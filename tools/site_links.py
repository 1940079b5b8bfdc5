"""A hook of mkdocs (`make site`): the README is the first page, and files outside docs/ to which
pages link are part of the site.

Links in docs/ are those of the repository, so they work in both. The site has no address of
the repository to link to, so it takes a copy of what lies outside docs/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]

_LINK = re.compile(
    r'(?P<before>\[(?P<text>[^\]]*)\]\(|src=")(?P<target>[^)\s"#:]+)(?P<after>(?:#[^)]*)?[)"])'
)
"""A link or a picture in Markdown, or the source of a picture in HTML; no address elsewhere."""


def place(path: str) -> str:
    """Where the site has a file of the repository.

    >>> place("docs/audit.md"), place("README.md"), place("results/cpu/table7.png")
    ('audit.md', 'index.md', 'repository/results/cpu/table7.png')
    """
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def relinked(text: str, page: str) -> str:
    """The text of a page of the repository, with links as the site needs them.

    The site has no folders, so a link to one becomes plain text.
    """

    def link(match: re.Match[str]) -> str:
        target = normpath(join(dirname(page), match["target"]))
        if (ROOT / target).is_dir():
            return match["text"]
        if not (ROOT / target).is_file():
            return match[0]
        return match["before"] + relpath(place(target), dirname(place(page))) + match["after"]

    return _LINK.sub(link, text)


@cache
def sources() -> dict[str, str]:
    """Every file outside docs/ that the site has: its place there -> its path in the repository."""
    pages = [file for form in ("*.md", "docs/**/*.md", "examples/*.md") for file in ROOT.glob(form)]
    files = {*ROOT.glob("*.md"), *(file for page in pages for file in _linked(page))}
    paths = sorted(file.relative_to(ROOT).as_posix() for file in files)
    return {place(path): path for path in paths if not path.startswith("docs/")}


def _linked(page: Path) -> Iterator[Path]:
    """The files to which a page links."""
    for match in _LINK.finditer(page.read_text(encoding="utf-8")):
        path = (page.parent / match["target"]).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            yield path


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside docs/."""
    from mkdocs.structure.files import File  # only the environment of `make site` has it

    for uri, path in sources().items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the site needs them."""
    uri = page.file.src_uri
    return relinked(markdown, sources().get(uri, f"docs/{uri}"))
