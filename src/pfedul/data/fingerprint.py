"""A short text that tells whether a client brings the same data again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

from pfedul.data.samples import ClientData, Samples, TensorSamples


def fingerprint(client: ClientData) -> str:
    """SHA-256 (hex) over one client's samples: it can be erased with the client.

    Of a user's own Dataset only the length counts: its samples are made as they
    are read and may differ each time.
    """
    digest = hashlib.sha256()
    for piece in (*_pieces(client.train), *_pieces(client.test)):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(samples: Samples) -> Iterator[bytes | memoryview]:
    yield f"samples {len(samples)}\n".encode()
    if isinstance(samples, TensorSamples):
        for tensor in (samples.x, samples.y):
            # Type and shape say how many bytes follow, so different data never read the same.
            yield f"{tensor.dtype} {tuple(tensor.shape)}\n".encode()
            yield _bytes(tensor)


def _bytes(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
