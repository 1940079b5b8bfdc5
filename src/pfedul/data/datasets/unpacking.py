"""Compressed files within limits: a few bytes can unpack to more than the memory holds."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from pfedul.base.text import human_bytes
from pfedul.errors import PfedulError

LARGEST_ARCHIVE = 2**29
"""Unpacked bytes of an archive; the official ones of CIFAR have less than 200 MB."""

LARGEST_FILE = 2**26
"""Unpacked bytes of one idx file; the largest official one has 47 MB."""


def unzipped(name: str, content: bytes) -> bytes:
    """What a gzipped file holds."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        return _Limited(file, name, LARGEST_FILE).read()


@contextmanager
def opened_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """A .tar.gz to be read once from its beginning; headers and skipped files count as well."""
    with gzip.open(path) as file:
        limited = _Limited(file, path.name, LARGEST_ARCHIVE)
        with tarfile.open(fileobj=limited, mode="r|") as archive:
            yield archive


class _Limited(io.RawIOBase):
    """Reads a file, and refuses to go on behind a limit."""

    def __init__(self, file: gzip.GzipFile, name: str, most: int) -> None:
        self._file, self._name, self._most, self._left = file, name, most, most

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left + 1 if size < 0 else size)
        self._left -= len(data)
        if self._left < 0:
            raise PfedulError(
                f"The file {self._name} unpacks to more than {human_bytes(self._most)}, which no "
                "official one does; fetch it again."
            )
        return data


def check_room(path: Path, archive: zipfile.ZipFile, keys: set[str]) -> None:
    """Refuse arrays that do not fit into the memory that is free."""
    size = sum(i.file_size for i in archive.infolist() if i.filename.removesuffix(".npy") in keys)
    free = psutil.virtual_memory().available
    if size > free // 2:
        raise PfedulError(
            f"The arrays in {path} take {human_bytes(size)}, and {human_bytes(free)} of memory "
            "are free, half of which they may take; store fewer samples, or smaller ones."
        )
