"""The idx format of MNIST and its kin: a small header, then bytes (Y. LeCun, "THE MNIST DATABASE").

Two zero bytes, one byte for the type of the values (8 = unsigned byte), one for
the number of dimensions, each dimension as a big-endian 32-bit number, the values.
"""

from __future__ import annotations

import gzip
import zlib

import numpy as np
from numpy.typing import NDArray

from pfedul.errors import PfedulError

GZIP_START = b"\x1f\x8b"
UNSIGNED_BYTE = 8


def read_idx(name: str, content: bytes, dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file, plain or gzipped."""
    plain = _unzipped(name, content)
    header = 4 + 4 * dimensions
    if plain[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(plain) < header:
        raise PfedulError(f"The file {name} is not an idx file of bytes; fetch the official one.")
    shape = tuple(int(size) for size in np.frombuffer(plain, ">u4", dimensions, 4))
    values = np.frombuffer(plain, np.uint8, offset=header)
    if len(values) != np.prod(shape, dtype=np.int64):
        raise PfedulError(f"The file {name} is cut short or too long; fetch it again.")
    return values.reshape(shape)


def _unzipped(name: str, content: bytes) -> bytes:
    if not content.startswith(GZIP_START):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        raise PfedulError(f"The file {name} is damaged or incomplete; fetch it again.") from None
