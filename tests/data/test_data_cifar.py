"""CIFAR-10 and CIFAR-100 in all their official versions."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.cifar import CIFAR10, CIFAR100
from pfedul.errors import PfedulError

KINDS = {10: CIFAR10, 100: CIFAR100}
BINARY = {10: "cifar-10-batches-bin", 100: "cifar-100-binary"}
PYTHON = {10: "cifar-10-batches-py", 100: "cifar-100-python"}
NAMES = {10: ("data_batch_1", "data_batch_2", "test_batch"), 100: ("train", "test")}

MEAN = {
    10: [[[0.4914]], [[0.4822]], [[0.4465]]],
    100: [[[0.5071]], [[0.4865]], [[0.4409]]],
}
STD = {
    10: [[[0.2470]], [[0.2435]], [[0.2616]]],
    100: [[[0.2673]], [[0.2564]], [[0.2762]]],
}


def pixels(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, 3072), dtype=np.uint8)


def labels(count: int, classes: int) -> list[int]:
    return [(classes - 1 - row) % classes for row in range(count)]


def binary_file(count: int, classes: int) -> bytes:
    columns = np.array(labels(count, classes), dtype=np.uint8).reshape(-1, 1)
    coarse = [np.full_like(columns, 7)] if classes == 100 else []
    return np.hstack([*coarse, columns, pixels(count)]).tobytes()


def python_file(count: int, classes: int, protocol: int = 2) -> bytes:
    key = "labels" if classes == 10 else "fine_labels"
    content = {"data": pixels(count), key: labels(count, classes), "coarse_labels": [0] * count}
    return pickle.dumps(content, protocol)


def write(root: Path, version: str, classes: int) -> None:
    """Files of 3, 4, ... records, as a folder or as an archive only."""
    folder = root / (BINARY if version.startswith("binary") else PYTHON)[classes]
    folder.mkdir(parents=True)
    for count, name in enumerate(NAMES[classes], start=3):
        if version.startswith("binary"):
            (folder / f"{name}.bin").write_bytes(binary_file(count, classes))
        else:
            (folder / name).write_bytes(python_file(count, classes))
    if version.endswith("archive"):
        archive_folder(folder, root / f"cifar-{classes}-{version.split()[0]}.tar.gz")


def archive_folder(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, folder.name)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def load(root: Path, classes: int):
    return KINDS[classes].load(SearchPath((root,)), NoOptions())


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("version", ["binary", "binary archive", "python", "python archive"])
def test_every_version_gives_the_same_samples(tmp_path, version, classes):
    write(tmp_path, version, classes)
    dataset = load(tmp_path, classes)
    counts = [3, 4] if classes == 10 else [3]
    wanted = np.concatenate([pixels(count) for count in counts]).reshape(-1, 3, 32, 32)
    back = dataset.train.x * torch.tensor(STD[classes]) + torch.tensor(MEAN[classes])
    assert np.array_equal(np.rint(back.numpy() * 255).astype(np.uint8), wanted)
    assert dataset.train.y.tolist() == [y for count in counts for y in labels(count, classes)]
    assert len(dataset.test) == counts[-1] + 1
    assert dataset.classes == classes
    assert dataset.train.x.dtype == torch.float32
    assert dataset.train.x.is_contiguous()


@pytest.mark.parametrize("classes", [10, 100])
def test_the_folder_itself_can_be_named(tmp_path, classes):
    write(tmp_path, "binary", classes)
    assert len(load(tmp_path / BINARY[classes], classes).test) == len(NAMES[classes]) + 2


def test_a_broken_record_is_refused(tmp_path):
    write(tmp_path, "binary", 10)
    path = tmp_path / BINARY[10] / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PfedulError, match=r"data_batch_2\.bin has 12291 bytes"):
        load(tmp_path, 10)


def test_labels_of_another_set_are_refused(tmp_path):
    write(tmp_path, "binary", 10)
    (tmp_path / BINARY[10] / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(PfedulError, match="outside 0 to 9"):
        load(tmp_path, 10)


@pytest.mark.parametrize(
    "content",
    [
        {"data": pixels(2), "labels": [1]},
        {"data": pixels(2)[:, :5], "labels": [1, 2]},
        {"data": pixels(2).astype(np.float32), "labels": [1, 2]},
        {"data": pixels(2), "labels": ["1", "2"]},
        {"data": pixels(2)},
        [1, 2],
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, content):
    write(tmp_path, "python", 10)
    (tmp_path / PYTHON[10] / "test_batch").write_bytes(pickle.dumps(content))
    with pytest.raises(PfedulError, match="test_batch does not hold"):
        load(tmp_path, 10)


def test_missing_files_are_asked_for(tmp_path):
    with pytest.raises(PfedulError, match=r"cifar-10-binary\.tar\.gz.*kriz/cifar\.html"):
        load(tmp_path, 10)


@pytest.mark.parametrize("classes", [10, 100])
def test_real_images_have_the_published_mean_and_deviation(real_data, classes):
    dataset = load(real_data(f"cifar{classes}"), classes)
    assert dataset.train.y.unique().tolist() == list(range(classes))
    assert dataset.train.x.shape[1:] == (3, 32, 32)
    assert float(dataset.train.x.mean(dim=(0, 2, 3)).abs().max()) < 0.05
    assert float((dataset.train.x.std(dim=(0, 2, 3)) - 1).abs().max()) < 0.05
