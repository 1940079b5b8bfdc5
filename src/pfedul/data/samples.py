"""Samples of one part of one client, read by index in whole batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfedul.base.inputs import Inputs, count, each, named_tensors
from pfedul.base.randomness import numpy_generator
from pfedul.errors import PfedulError
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION
from pfedul.tasks.collate import stack_inputs

TEST_SHARE = 0.2  # of data without an official test part
_SPLIT_SEED = 0  # constant: what is a test sample must not depend on a run's seed

Indices = NDArray[np.int64]

AT_ONCE = 256
"""Samples of a Dataset that are looked at together."""

_IMAGES = 3  # dimensions of a batch of images, at least


class Samples(Protocol):
    """What a client trains or is tested on."""

    def __len__(self) -> int: ...
    def batch(self, indices: Tensor) -> tuple[Inputs, Tensor]:
        """Inputs and labels of these samples, as freshly allocated tensors."""
        ...

    def as_type(self, dtype: torch.dtype) -> Samples:
        """The same samples with inputs that are not whole numbers in this type."""
        ...

    def to(self, device: torch.device) -> Samples:
        """The same samples with batches on this device."""
        ...


@dataclass(frozen=True)
class TensorSamples:
    """Samples that are held in memory, inputs and labels as tensors: the fast kind."""

    x: Inputs
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, indices: Tensor) -> tuple[Inputs, Tensor]:
        # A copy, always: its alignment, and so the last bit of what is computed
        # from it, is then the same wherever the samples themselves lie.
        there = indices.to(self.y.device)
        return each(self.x, lambda x: x.index_select(0, there)), self.y.index_select(0, there)

    def as_type(self, dtype: torch.dtype) -> TensorSamples:
        x = each(self.x, lambda tensor: _in_type(tensor, dtype))
        return TensorSamples(x, _in_type(self.y, dtype))

    def to(self, device: torch.device) -> TensorSamples:
        return TensorSamples(each(self.x, lambda x: x.to(device)), self.y.to(device))


@dataclass(frozen=True)
class DatasetSamples:
    """Samples of a user's map-style Dataset; random transforms draw from the task's own stream.

    A sample is a pair (input, label), or a dictionary with `labels`. `filled`: they are sequences
    of different lengths (see `pfedul.tasks.collate`). A Dataset that has a method `collate` makes
    its batches itself.
    """

    dataset: Any
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"
    task: LearningTask = CLASSIFICATION
    owner: str = "a client"
    filled: bool = False

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: Tensor) -> tuple[Inputs, Tensor]:
        x, y = self._collated([self.dataset[int(index)] for index in indices])
        x = each(x, _without_bytes)
        y = self.task.checked(x, y, self.owner)
        there = each(x, lambda tensor: _in_type(tensor, self.dtype).to(self.device))
        return there, _in_type(y, self.dtype).to(self.device)

    def _collated(self, items: Sequence[Any]) -> tuple[Inputs, Tensor]:
        if collates(self):
            return as_batch(self.dataset.collate(items), self.owner)
        pairs = [without_labels(item) for item in items]
        x = stack_inputs([pair[0] for pair in pairs], self.filled)
        return x, self.task.stack([pair[1] for pair in pairs])

    def as_type(self, dtype: torch.dtype) -> DatasetSamples:
        return replace(self, dtype=dtype)

    def to(self, device: torch.device) -> DatasetSamples:
        return replace(self, device=device)


def collates(samples: Samples) -> bool:
    """Whether they are a Dataset that makes its own batches."""
    return isinstance(samples, DatasetSamples) and hasattr(samples.dataset, "collate")


def without_labels(item: Any) -> Any:
    """A pair as it is; of a dictionary the rest and its `labels`, None if it has none."""
    if not isinstance(item, Mapping):
        return item
    return {name: item[name] for name in item if name != "labels"}, item.get("labels")


def as_batch(made: Any, owner: str) -> tuple[Inputs, Tensor]:
    """What a Dataset's own `collate` returned, checked: a pair, or a dictionary with `labels`."""
    made = without_labels(made)
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Tensor):
        x = dict(made[0]) if isinstance(made[0], Mapping) else made[0]
        parts = list(x.values()) if isinstance(x, dict) else x if isinstance(x, tuple) else [x]
        if parts and all(isinstance(part, Tensor) for part in parts):
            return x, made[1]
    raise PfedulError(
        f"The collate of {owner} must return (inputs, labels) as tensors, or a dictionary of "
        "tensors with labels."
    )


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

    For tasks without classes `classes` is how many numbers the model must give. `random_split`:
    what is training and what is test at a client was drawn at random.
    """

    clients: dict[str, ClientData]
    classes: int
    warnings: tuple[str, ...] = ()
    random_split: bool = False


def as_samples(given: object, owner: str, task: LearningTask = CLASSIFICATION) -> Samples:
    """Samples from what users hold: a pair of arrays or tensors, or a map-style Dataset.

    The inputs of a pair may be several: a tuple or a dictionary of arrays. Without labels, for
    a task that makes targets of its inputs, the second of the pair is None.
    """
    if isinstance(given, TensorSamples):
        return replace(given, y=task.checked(given.x, given.y, owner))
    if isinstance(given, DatasetSamples):
        return replace(given, task=task, owner=owner)
    if isinstance(given, tuple) and len(given) == 2:
        x = _inputs(given[0], owner)
        y = (
            torch.zeros(count(x), dtype=torch.int64, device="cpu")
            if given[1] is None
            else _tensor(given[1], owner)
        )
        return tensor_samples(x, y, owner, task)
    if hasattr(given, "__getitem__") and isinstance(given, Sized) and not isinstance(given, tuple):
        return DatasetSamples(given, task=task, owner=owner)
    raise PfedulError(
        f"The data of {owner} must be a pair (inputs, labels) or a map-style Dataset, "
        f"not {type(given).__name__}."
    )


def tensor_samples(
    x: Inputs, y: Tensor, owner: str, task: LearningTask = CLASSIFICATION
) -> TensorSamples:
    """Checked samples: finite inputs, labels that fit the task, as many of one as of the other.

    Bytes (uint8) are images if a sample has a height and a width, [H, W] or [C, H, W]: they
    are divided by 255. Other bytes are tokens and become whole numbers of 64 bits, as
    embeddings take them; divide flat images yourself. Inputs of any other type stay as they are.
    """
    x = each(x, lambda tensor: _checked_input(tensor, owner))
    y = task.checked(x, y, owner)
    if count(x) != len(y):
        raise PfedulError(f"The data of {owner} have {len(y)} labels for {count(x)} inputs.")
    return TensorSamples(x, y)


def _checked_input(x: Tensor, owner: str) -> Tensor:
    x = _without_bytes(x)
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise PfedulError(
            f"The data of {owner} contain NaN or infinite values; clean them before training."
        )
    return x.contiguous()


def _without_bytes(x: Tensor) -> Tensor:
    if x.dtype != torch.uint8:
        return x
    return x / 255 if x.ndim >= _IMAGES else x.long()


def _inputs(values: Any, owner: str) -> Inputs:
    """One input, or several: a dictionary, or a tuple of arrays."""
    if isinstance(values, Mapping):
        return {str(name): _tensor(part, owner) for name, part in values.items()}
    if isinstance(values, tuple) and all(isinstance(v, Tensor | np.ndarray) for v in values):
        return tuple(_tensor(part, owner) for part in values)
    return _tensor(values, owner)


def _tensor(values: Any, owner: str) -> Tensor:
    """A copy: what users do to their arrays later must not reach a federation."""
    try:
        is_tensor = isinstance(values, Tensor)
        return values.detach().clone() if is_tensor else torch.from_numpy(np.array(values))
    except (TypeError, ValueError) as error:
        if "inhomogeneous" in str(error):
            raise PfedulError(
                f"The data of {owner} have different lengths; give them as a list of pairs "
                "(input, label)."
            ) from None
        raise PfedulError(f"The data of {owner} are not numbers: {error}.") from None


def batch_of(samples: Samples) -> tuple[Inputs, Tensor]:
    """All of the samples in one batch."""
    return samples.batch(torch.arange(len(samples), device="cpu"))


def fingerprint(client: ClientData) -> str:
    """SHA-256 (hex) over one client's samples; of a Dataset that may vary, the length alone."""
    digest = hashlib.sha256()
    for piece in (*_pieces(client.train), *_pieces(client.test)):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(samples: Samples) -> Iterator[bytes | memoryview]:
    yield f"samples {len(samples)}\n".encode()
    for x, y in _fixed_batches(samples):
        for name, tensor in [*named_tensors(x).items(), ("", y)]:
            # Type and shape say how many bytes follow, so different data never read the same.
            yield f"{name and name + ' '}{tensor.dtype} {tuple(tensor.shape)}\n".encode()
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            yield flat.view(torch.uint8).numpy().data


def _fixed_batches(samples: Samples) -> Iterator[tuple[Inputs, Tensor]]:
    """Those that are the same at every reading: of samples in memory, or in a list."""
    if isinstance(samples, TensorSamples):
        yield samples.x, samples.y
    elif isinstance(samples, DatasetSamples) and isinstance(samples.dataset, list):
        for indices in torch.split(torch.arange(len(samples), device="cpu"), AT_ONCE):
            yield samples.batch(indices)


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
