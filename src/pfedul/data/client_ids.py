"""Names of clients, which are also names of files and must be safe as such everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pfedul.errors import PfedulError

LONGEST = 64
CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def numbered_ids(count: int) -> list[str]:
    """`client-00`, `client-01`, ..., all of the same width so that they sort by number.

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
