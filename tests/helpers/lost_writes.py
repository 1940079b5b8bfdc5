"""A power cut, simulated: what of the files below a folder has reached the disk at each instant.

A file's content reaches the disk when the file is synced, its name when its folder is synced. What
was not synced may be there after a power cut or not, in any combination; only a rename is there as
a whole or not at all, as on every file system with a journal. A transaction of the ledger is
durable when `Ledger.write` returns: that is SQLite's promise, for a connection with
`synchronous = EXTRA`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from helpers.disk import Disk
from pfedul.store.ledger import Ledger

Image = Mapping[str, bytes | None]
"""What lies on the disk: file -> its content; None for a folder."""


@dataclass(eq=False)
class Node:
    """A file or a folder: as processes see it (`entries`), and as the disk has it (`kept`)."""

    entries: dict[str, Node] | None = None
    kept_entries: dict[str, Node] = field(default_factory=dict)
    kept: bytes = b""


@dataclass(eq=False)
class Change:
    """Something done and not yet synced: contents of a file, or names in folders."""

    names: tuple[tuple[Node, str, Node | None], ...] = ()
    file: Node | None = None
    content: bytes = b""

    def is_synced_with(self, node: Node) -> bool:
        return node is self.file or any(folder is node for folder, _, _ in self.names)


Choose = Callable[[Change], Change | None]
"""What of an unsynced change survives."""

VARIANTS: dict[str, Callable[[random.Random], Choose]] = {
    "nothing unsynced": lambda _: lambda _change: None,
    "everything": lambda _: lambda change: change,
    "names without contents": lambda _: lambda change: change if change.names else None,
    "torn contents": lambda _: (
        lambda change: Change(change.names, change.file, change.content[: len(change.content) // 2])
    ),
    "some": lambda rng: lambda change: change if rng.random() < 0.5 else None,
    "most": lambda rng: lambda change: change if rng.random() < 0.9 else None,
}


class PowerCuts:
    """Watches a folder, and keeps what a power cut before each act would leave."""

    def __init__(self, root: Path, state: Callable[[], Any], seed: int = 0) -> None:
        self.images: list[tuple[Image, Any]] = []
        """What would be left, and what `state` said at that instant."""
        self.points = 0
        self._root, self._state = root, state
        self._rng = random.Random(seed)
        self._tree = self._read(root)
        self._changes: list[Change] = []
        self._open: list[tuple[Any, Path]] = []
        self._known: set[tuple[int, Any]] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        write = Ledger.write

        def written(ledger: Ledger, statements: Any) -> None:
            self._cut("ledger", ledger.path)
            write(ledger, statements)
            if not self._has(ledger.path):
                self._enter(ledger.path, Node())
            self._node(ledger.path).kept = ledger.path.read_bytes()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "write", written)
            with Disk(self._root, self._cut, self._done).watched():
                yield
        self._cut("end", self._root)

    def _cut(self, name: str, _path: Path) -> None:
        """Keep what would be left if the power failed now."""
        if name in {"stat", "lstat", "scandir", "listdir", "open", "write", "chmod"}:
            return
        self._take_in_contents()
        self.points += 1
        for make in VARIANTS.values():
            image = self.image(make(self._rng))
            state = self._state()
            key = hash(tuple(sorted(image.items()))), state
            if key not in self._known:
                self._known.add(key)
                self.images.append((image, state))

    def image(self, choose: Choose) -> Image:
        """The files on the disk, if of the unsynced changes those survive that `choose` takes."""
        contents: dict[Node, bytes] = {}
        names: dict[Node, dict[str, Node]] = {}
        for change in filter(None, map(choose, self._changes)):
            for folder, name, node in change.names:
                _put(names.setdefault(folder, dict(folder.kept_entries)), name, node)
            if change.file is not None:
                contents[change.file] = change.content
        return dict(_walk(self._tree, "", names, contents))

    # What was done

    def _done(self, name: str, path: Path, arguments: tuple[Any, ...]) -> None:
        if name == "create":
            self._open.append((arguments[0], path))
        if name in {"create", "open"}:
            if not self._has(path) and path.exists():
                self._enter(path, Node())
        elif name == "mkdir":
            self._enter(path, Node({}))
        elif name in {"replace", "rename"}:
            self._move(path, Path(arguments[1]))
        elif name == "link":
            self._enter(Path(arguments[1]), self._node(path))
        elif name in {"unlink", "remove", "rmdir"}:
            self._leave(path)
        elif name == "fsync":
            self._sync(path)

    def _take_in_contents(self) -> None:
        """Note what was written to files since the last act."""
        for _, path in self._open:
            if self._has(path):
                content = path.read_bytes()
                self._changes.append(Change(file=self._node(path), content=content))
        self._open = [(file, path) for file, path in self._open if not file.closed]

    def _enter(self, path: Path, node: Node) -> None:
        folder = self._node(path.parent)
        _put(_entries(folder), path.name, node)
        self._changes.append(Change(((folder, path.name, node),)))

    def _leave(self, path: Path) -> None:
        folder = self._node(path.parent)
        _entries(folder).pop(path.name, None)
        self._changes.append(Change(((folder, path.name, None),)))

    def _move(self, source: Path, target: Path) -> None:
        before, after = self._node(source.parent), self._node(target.parent)
        node = _entries(before).pop(source.name)
        _entries(after)[target.name] = node
        both = (before, source.name, None), (after, target.name, node)
        self._changes.append(Change(both))

    def _sync(self, path: Path) -> None:
        node = self._node(path)
        if node.entries is None:
            node.kept = path.read_bytes()
        for change in self._changes:
            if change.is_synced_with(node):
                _apply(change)
        self._changes = [item for item in self._changes if not item.is_synced_with(node)]

    # The tree

    def _read(self, path: Path) -> Node:
        """What lies there, all of it on the disk."""
        if not path.is_dir():
            return Node(kept=path.read_bytes())
        entries = {entry.name: self._read(entry) for entry in path.iterdir()}
        return Node(entries, dict(entries))

    def _node(self, path: Path) -> Node:
        node = self._tree
        for part in path.relative_to(self._root).parts:
            node = _entries(node)[part]
        return node

    def _has(self, path: Path) -> bool:
        try:
            self._node(path)
        except KeyError:
            return False
        return True


def _entries(node: Node) -> dict[str, Node]:
    assert node.entries is not None
    return node.entries


def _put(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _apply(change: Change) -> None:
    for folder, name, node in change.names:
        _put(folder.kept_entries, name, node)


def _walk(
    node: Node, path: str, names: Mapping[Node, dict[str, Node]], contents: Mapping[Node, bytes]
) -> Iterator[tuple[str, bytes | None]]:
    for name, child in names.get(node, node.kept_entries).items():
        place = f"{path}{name}"
        if child.entries is None:
            yield place, contents.get(child, child.kept)
        else:
            yield place, None
            yield from _walk(child, f"{place}/", names, contents)


def lay_out(image: Image, root: Path) -> Path:
    """Write what is left of a folder to another place."""
    root.mkdir(parents=True)
    for name, content in image.items():
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)
    return root
