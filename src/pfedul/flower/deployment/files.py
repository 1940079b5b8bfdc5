"""Files that appear whole or not at all, with the mode that they are meant to have."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644
EXECUTABLE = 0o755


def write(path: Path, data: bytes, mode: int = PUBLIC) -> None:
    """Write a file; nobody sees it half-written or with another mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.chmod(draft, mode)  # whatever the umask is
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    os.replace(draft, path)
