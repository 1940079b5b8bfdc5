"""Checks of names of clients and of labels."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pfedul.errors import PfedulError

LONGEST = 64  # names of clients are also names of files, on any system
CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")

# A larger label is a customer number or the like by mistake: a network would
# need one output for every number up to it.
MOST_CLASSES = 1_000_000


def numbered_ids(count: int) -> list[str]:
    """`client-00`, `client-01`, ..., all of the same width, so they sort by number.

    >>> numbered_ids(2)
    ['client-00', 'client-01']
    """
    width = max(2, len(str(count - 1)))
    return [f"client-{number:0{width}d}" for number in range(count)]


def clean_id(name: str) -> str:
    """`name` as an identifier: what is unsafe becomes a hyphen.

    >>> clean_id("Ward 3/b")
    'Ward-3-b'
    """
    return _UNSAFE.sub("-", name).lstrip("._-")[:LONGEST]


def check_ids(identifiers: Iterable[object]) -> None:
    """Refuse identifiers that are unsafe, or that some file systems take for the same."""
    seen: dict[str, str] = {}
    for given in identifiers:
        if not isinstance(given, str) or not CLIENT_ID.fullmatch(given):
            raise PfedulError(
                f"The client name {given!r} is not allowed; use 1 to {LONGEST} letters, digits, "
                "dots, underscores and hyphens, starting with a letter or digit."
            )
        other = seen.setdefault(given.lower(), given)
        if other != given:
            raise PfedulError(
                f"The client names '{other}' and '{given}' differ only by case; rename one."
            )


def classes_up_to(largest_label: int) -> int:
    """The number of classes 0, 1, ..., `largest_label`."""
    if largest_label >= MOST_CLASSES:
        raise PfedulError(
            f"The largest label is {largest_label}; number the classes 0, 1, 2, ... without gaps."
        )
    return largest_label + 1
