"""The bytes of the files that were found, from a folder or straight from a .tar.gz archive."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pfedul.data.datasets.files import Found
from pfedul.errors import PfedulError


def contents(found: Found) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file that the layout asks for, one at a time."""
    if found.path.is_dir():
        yield from _from_folder(found)
    else:
        yield from _from_archive(found)


def _from_folder(found: Found) -> Iterator[tuple[str, bytes]]:
    for pattern in found.layout.patterns:
        for path in sorted(found.path.glob(pattern)):
            if path.is_file():
                yield path.relative_to(found.path).as_posix(), _read(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PfedulError(f"The file {path} cannot be read: {error.strerror}.") from None


def _from_archive(found: Found) -> Iterator[tuple[str, bytes]]:
    """One pass through the archive, since going back in it would unzip it anew."""
    missing = set(found.layout.patterns)
    try:
        with tarfile.open(found.path, "r|*") as archive:
            for member in archive:
                pattern = _wanted_by(member, found)
                if pattern and (stream := archive.extractfile(member)):
                    missing.discard(pattern)
                    yield _short_name(member.name, pattern), stream.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError):
        raise PfedulError(
            f"The archive {found.path} is damaged or incomplete; fetch it again."
        ) from None
    if missing:
        lacks = " and ".join(sorted(missing))
        raise PfedulError(f"The archive {found.path} holds no {lacks}; fetch the official one.")


def _wanted_by(member: tarfile.TarInfo, found: Found) -> str:
    path = PurePosixPath(member.name)
    return next((p for p in found.layout.patterns if member.isfile() and path.match(p)), "")


def _short_name(name: str, pattern: str) -> str:
    """The name as it would be in the unpacked folder."""
    return "/".join(PurePosixPath(name).parts[-len(PurePosixPath(pattern).parts) :])
