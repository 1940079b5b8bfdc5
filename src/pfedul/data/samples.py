"""Samples of one part of one client, read by index in whole batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfedul.base.randomness import numpy_generator
from pfedul.errors import PfedulError

TEST_SHARE = 0.2  # of data without an official test part
_SPLIT_SEED = 0  # constant: what is a test sample must not depend on a run's seed

Indices = NDArray[np.int64]

_IMAGES = 3  # dimensions of a batch of images, at least
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Samples(Protocol):
    """What a client trains or is tested on."""

    def __len__(self) -> int: ...
    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and integer labels of these samples, as freshly allocated tensors."""
        ...

    def as_type(self, dtype: torch.dtype) -> Samples:
        """The same samples with inputs that are not whole numbers in this type."""
        ...

    def to(self, device: torch.device) -> Samples:
        """The same samples with batches on this device."""
        ...


@dataclass(frozen=True)
class TensorSamples:
    """Samples that are held in memory as two tensors: the fast kind."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        # A copy, always: its alignment, and so the last bit of what is computed
        # from it, is then the same wherever the samples themselves lie.
        there = indices.to(self.x.device)
        return self.x.index_select(0, there), self.y.index_select(0, there)

    def as_type(self, dtype: torch.dtype) -> TensorSamples:
        return TensorSamples(_in_type(self.x, dtype), self.y)

    def to(self, device: torch.device) -> TensorSamples:
        return TensorSamples(self.x.to(device), self.y.to(device))


@dataclass(frozen=True)
class DatasetSamples:
    """Samples of a user's map-style Dataset; random transforms draw from the task's own stream."""

    dataset: Any
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        items = [self.dataset[int(index)] for index in indices]
        x = torch.stack([torch.as_tensor(item[0], device="cpu") for item in items])
        y = torch.tensor([int(item[1]) for item in items], device="cpu")
        return _in_type(x, self.dtype).to(self.device), y.to(self.device)

    def as_type(self, dtype: torch.dtype) -> DatasetSamples:
        return DatasetSamples(self.dataset, dtype, self.device)

    def to(self, device: torch.device) -> DatasetSamples:
        return DatasetSamples(self.dataset, self.dtype, device)


def _in_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) if x.is_floating_point() else x


@dataclass(frozen=True)
class ClientData:
    """The two parts that a client holds; both follow the client's own distribution."""

    train: Samples
    test: Samples

    def to(self, device: torch.device) -> ClientData:
        """The same data with batches on this device."""
        return ClientData(self.train.to(device), self.test.to(device))


@dataclass(frozen=True)
class FederatedData:
    """Every client's data, the number of classes, and warnings for the user.

    `random_split`: what is training and what is test at a client was drawn at random.
    """

    clients: dict[str, ClientData]
    classes: int
    warnings: tuple[str, ...] = ()
    random_split: bool = False


def as_samples(given: object, owner: str) -> Samples:
    """Samples from what users hold: a pair of arrays or tensors, or a map-style Dataset."""
    if isinstance(given, TensorSamples | DatasetSamples):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return tensor_samples(_tensor(given[0], owner), _tensor(given[1], owner), owner)
    if hasattr(given, "__getitem__") and isinstance(given, Sized) and not isinstance(given, tuple):
        return DatasetSamples(given)
    raise PfedulError(
        f"The data of {owner} must be a pair (inputs, labels) or a map-style Dataset, "
        f"not {type(given).__name__}."
    )


def tensor_samples(x: Tensor, y: Tensor, owner: str) -> TensorSamples:
    """Checked samples: finite inputs, whole labels from 0 up, as many of one as of the other.

    Bytes (uint8) are images if a sample has a height and a width, [H, W] or [C, H, W]: they
    are divided by 255. Other bytes are tokens and become whole numbers of 64 bits, as
    embeddings take them; divide flat images yourself. Inputs of any other type stay as they are.
    """
    if y.ndim != 1 or y.dtype not in _WHOLE or (len(y) and int(y.min()) < 0):
        raise PfedulError(f"The labels of {owner} must be a list of whole numbers from 0 up.")
    if x.ndim == 0 or len(x) != len(y):
        count = len(x) if x.ndim else 0
        raise PfedulError(f"The data of {owner} have {len(y)} labels for {count} inputs.")
    if x.dtype == torch.uint8:
        x = x / 255 if x.ndim >= _IMAGES else x.long()
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise PfedulError(
            f"The data of {owner} contain NaN or infinite values; clean them before training."
        )
    return TensorSamples(x.contiguous(), y.long().contiguous())


def _tensor(values: Any, owner: str) -> Tensor:
    """A copy: what users do to their arrays later must not reach a federation."""
    try:
        is_tensor = isinstance(values, Tensor)
        return values.detach().clone() if is_tensor else torch.from_numpy(np.array(values))
    except (TypeError, ValueError) as error:
        raise PfedulError(f"The data of {owner} are not numbers: {error}.") from None


def fingerprint(client: ClientData) -> str:
    """SHA-256 (hex) over one client's samples; of a user's Dataset, which may vary, the length."""
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
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            yield flat.view(torch.uint8).numpy().data


def stratified_split(
    labels: NDArray[np.int64], owners: NDArray[np.str_] | None = None, share: float = TEST_SHARE
) -> tuple[Indices, Indices]:
    """A fixed split for data without an official one: training part, and `share` as test part.

    Samples are lined up by owner, then label, then chance, and with a share of a fifth every fifth
    is a test sample: so each owner and each class gives that share, to within one.
    """
    chance = numpy_generator(_SPLIT_SEED, "split").random(len(labels))
    keys = (chance, labels) if owners is None else (chance, labels, owners)
    order = np.lexsort(keys)
    passed = np.floor(np.arange(len(labels) + 1) * share + 0.5)  # test samples up to each place
    is_test = np.zeros(len(labels), dtype=bool)
    is_test[order] = np.diff(passed) > 0
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
