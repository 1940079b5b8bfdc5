"""Folders that only their owner may read: tensors of single clients, and keys, are in them."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> Path:
    """Make a folder and those above it that are missing; those that exist stay as they are."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    return folder
