"""Fashion-MNIST from idx files, which the tests write themselves."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.fashion_mnist import load, read_idx
from pfedul.errors import PfedulError


def idx(values: np.ndarray) -> bytes:
    sizes = np.array(values.shape, dtype=">u4").tobytes()
    return bytes([0, 0, 8, values.ndim]) + sizes + values.astype(np.uint8).tobytes()


def write_set(folder: Path, zipped: bool = False, label: int = 9) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 3), ("t10k", 2)):
        images = np.zeros((count, 28, 28), dtype=np.uint8)
        images[0, 1, 2] = 255
        files = {"images-idx3": idx(images), "labels-idx1": idx(np.full(count, label))}
        for name, content in files.items():
            path = folder / f"{part}-{name}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(content) if zipped else content)
    return folder


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("folder", ["", "fashion-mnist", "FashionMNIST/raw"])
def test_idx_files_are_read_plain_or_zipped(tmp_path, folder, zipped):
    write_set(tmp_path / folder, zipped)
    dataset = load(SearchPath((tmp_path,)), NoOptions())
    assert (len(dataset.train), len(dataset.test), dataset.classes) == (3, 2, 10)
    assert dataset.train.x.shape == (3, 1, 28, 28)
    assert dataset.train.x.dtype == torch.float32
    assert dataset.train.y.tolist() == [9, 9, 9]


def test_pixels_are_scaled_by_the_published_constants(tmp_path):
    write_set(tmp_path)
    x = load(SearchPath((tmp_path,)), NoOptions()).train.x
    assert float(x[0, 0, 1, 2]) == pytest.approx((1 - 0.2860) / 0.3530)
    assert float(x[0, 0, 2, 1]) == pytest.approx(-0.2860 / 0.3530)


def test_a_label_outside_the_classes_is_refused(tmp_path):
    write_set(tmp_path, label=10)
    with pytest.raises(PfedulError, match="label from 0 to 9"):
        load(SearchPath((tmp_path,)), NoOptions())


def test_fewer_labels_than_images_are_refused(tmp_path):
    write_set(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(2)))
    with pytest.raises(PfedulError, match="one label"):
        load(SearchPath((tmp_path,)), NoOptions())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (idx(np.zeros(5))[:-1], "cut short"),
        (idx(np.zeros(5)) + b"\0", "cut short"),
        (idx(np.zeros((5, 2))), "not an idx file"),
        (b"", "not an idx file"),
        (bytes([0, 0, 8, 1]), "not an idx file"),
        (gzip.compress(idx(np.zeros(500)), mtime=0)[:-9], "damaged"),
    ],
)
def test_a_broken_idx_file_is_refused(content, words):
    with pytest.raises(PfedulError, match=words):
        read_idx("labels", content, dimensions=1)
