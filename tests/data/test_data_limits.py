"""What is unpacked has limits, and values that fit no type are refused in one sentence."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from pfedul import PfedulError
from pfedul.data.datasets import cifar, femnist, unpacking
from pfedul.data.datasets.fashion_mnist import read_idx
from pfedul.data.datasets.files import contents, find, search_path
from pfedul.data.datasets.npz import read_parts


def test_a_gzip_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(unpacking, "LARGEST_FILE", 1000)
    with pytest.raises(PfedulError, match="unpacks to more than"):
        read_idx("images", gzip.compress(bytes(10**6)), dimensions=3)


@pytest.mark.parametrize("name", ["data_batch_1.bin", "something-else"])
def test_a_tar_bomb_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "LARGEST_ARCHIVE", 50_000)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
        member.size = 10**6
        archive.addfile(member, io.BytesIO(bytes(10**6)))
    with pytest.raises(PfedulError, match="unpacks to more than"):
        list(contents(find(search_path(tmp_path), cifar.CIFAR10)))


def own_file(path, **more):
    parts = {"x_train": np.zeros((4, 2), np.float32), "y_train": np.zeros(4, np.int64)}
    parts |= {"x_test": np.zeros((4, 2), np.float32), "y_test": np.zeros(4, np.int64)}
    np.savez_compressed(path, **parts, **more)
    return path


def test_an_npz_bomb_is_refused(tmp_path, monkeypatch):
    path = own_file(tmp_path / "own.npz")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100))
    with pytest.raises(PfedulError, match="of memory are free"):
        read_parts(path)


def test_arrays_that_nobody_asked_for_are_not_read(tmp_path):
    path = own_file(tmp_path / "own.npz", bomb=np.zeros(10))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("another.npy", b"not an array")
    assert len(read_parts(path).train) == 4


def test_a_header_that_names_any_size_is_refused(tmp_path):
    path, header = own_file(tmp_path / "own.npz"), io.BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": (2**60, 2)}
    np.lib.format.write_array_header_1_0(header, layout)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**parts, "x_train.npy": header.getvalue()}.items():
            archive.writestr(name, data)
    with pytest.raises(PfedulError, match="not an "):
        read_parts(path)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[0.5] * 784], [2**63]),
        ([[0.5] * 784], [2**70]),
        ([[0.5] * 784], [0.5]),
        ([["0.5"] * 784], [1]),
        ([[0.5] * 784], ["1"]),
        ([[None] * 784], [1]),
    ],
)
def test_values_of_leaf_that_are_none_are_refused(x, y):
    text = json.dumps({"users": ["a"], "user_data": {"a": {"x": x, "y": y}}})
    with pytest.raises(PfedulError, match="not LEAF's json"):
        list(femnist._writers("train/a.json", text.encode()))


def test_nested_json_is_refused():
    with pytest.raises(PfedulError, match="not LEAF's json"):
        list(femnist._writers("train/a.json", b"[" * 10**5))


@pytest.mark.parametrize("label", [2**63, 2**80, -(2**70)])
def test_labels_of_a_pickle_that_fit_no_type_are_refused(label):
    data = {"data": np.zeros((1, 3072), np.uint8), "labels": [label]}
    with pytest.raises(PfedulError, match="'labels' for each image"):
        cifar._records("data_batch_1", pickle.dumps(data, protocol=2), CIFAR)


CIFAR = SimpleNamespace(
    name="cifar10", classes=10, label_bytes=1, label_key="labels", train="", test=""
)
