"""SHA-256 of bytes and files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path


def digest(data: bytes) -> str:
    """SHA-256 of the bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: object) -> bool:
    """Whether this is a SHA-256 in hexadecimal.

    >>> is_digest(digest(b"")), is_digest("../x")
    (True, False)
    """
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


_SHA256 = re.compile("[0-9a-f]{64}")


def digest_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
