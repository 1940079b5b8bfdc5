"""People's own arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.npz import NpzOptions, load
from pfedul.errors import PfedulError

X = np.random.default_rng(0).random((50, 4))
Y = np.arange(50) % 5


def save(folder: Path, **arrays: object) -> str:
    np.savez(folder / "own.npz", **arrays)
    return str(folder / "own.npz")


def read(file: str, *roots: Path):
    return load(SearchPath(roots), NpzOptions(file))


def test_parts_are_taken_as_they_are(tmp_path):
    file = save(tmp_path, x_train=X, y_train=Y, x_test=X[:7], y_test=Y[:7])
    dataset = read(file)
    assert torch.equal(dataset.train.x, torch.tensor(X, dtype=torch.float32))
    assert dataset.test.y.tolist() == Y[:7].tolist()
    assert dataset.classes == 5
    assert dataset.owners is None


def test_x_and_y_alone_are_split_with_every_class_in_both_parts(tmp_path):
    dataset = read(save(tmp_path, x=X, y=Y.astype(np.uint8)))
    assert dataset.train.y.bincount().tolist() == [8] * 5
    assert dataset.test.y.bincount().tolist() == [2] * 5
    rows = torch.cat([dataset.train.x, dataset.test.x]).sum(1).sort().values
    assert torch.allclose(rows, torch.tensor(X, dtype=torch.float32).sum(1).sort().values)


def test_bytes_are_divided_by_255(tmp_path):
    x = np.array([[0, 255], [51, 102]], dtype=np.uint8)
    dataset = read(save(tmp_path, x_train=x, y_train=[0, 1], x_test=x, y_test=[0, 1]))
    assert dataset.train.x.flatten().tolist() == pytest.approx([0, 1, 0.2, 0.4])


def test_owners_of_both_parts_are_read(tmp_path):
    file = save(
        tmp_path,
        x_train=X,
        y_train=Y,
        x_test=X[:2],
        y_test=Y[:2],
        client_train=np.repeat([1, 2], 25),
        client_test=np.array([2, 1]),
    )
    owners = read(file).owners
    assert owners is not None
    assert owners.test.tolist() == ["2", "1"]
    assert owners.train.tolist() == ["1"] * 25 + ["2"] * 25


def test_owners_follow_the_split(tmp_path):
    x = np.repeat([[0.0], [1.0]], 25, axis=0)
    dataset = read(save(tmp_path, x=x, y=Y, client=np.repeat(["zero", "one"], 25)))
    assert dataset.owners is not None
    names = np.array(["zero", "one"])
    assert dataset.owners.train.tolist() == names[dataset.train.x[:, 0].long()].tolist()
    assert sorted(dataset.owners.test) == ["one"] * 5 + ["zero"] * 5


def test_a_data_root_is_searched(tmp_path):
    save(tmp_path, x=X, y=Y)
    assert len(read("own.npz", tmp_path / "elsewhere", tmp_path).train) == 40


def test_a_missing_file_is_asked_for(tmp_path):
    with pytest.raises(PfedulError, match="npz:file=FILE"):
        read("missing.npz", tmp_path)


BAD = {
    "missing keys": ({"x": X}, "it holds x"),
    "objects": ({"x": X, "y": np.array([None] * 50)}, "without object arrays"),
    "lengths": ({"x": X[:-1], "y": Y}, "equal lengths"),
    "rows": ({"x_train": X, "y_train": Y[:-1], "x_test": X, "y_test": Y}, "one row for each"),
    "fractions": ({"x": X, "y": Y + 0.5}, "whole numbers"),
    "negative": ({"x": X, "y": Y - 1}, "from 0 up"),
    "words": ({"x": X.astype(str), "y": Y}, "floating numbers or uint8"),
    "numbers": ({"x": (X * 9).astype(np.int64), "y": Y}, "floating numbers or uint8"),
    "not a number": ({"x": np.where(X > 0.5, np.nan, X), "y": Y}, "NaN"),
    "customer numbers": ({"x": X, "y": Y + 10**9}, "without gaps"),
    "owners": ({"x": X, "y": Y, "client": ["a"]}, "equal lengths"),
    "one part's owners": (
        {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "client_train": Y},
        "one owner for each",
    ),
    "shapes": ({"x_train": X, "y_train": Y, "x_test": X[:, :2], "y_test": Y}, "differ in shape"),
    "nothing": ({"x": X[:0], "y": Y[:0]}, "needs both"),
    "one number": ({"x": np.float64(1), "y": np.int64(1)}, "list of whole numbers"),
}


@pytest.mark.parametrize(("arrays", "words"), BAD.values(), ids=BAD.keys())
def test_mistakes_are_named(tmp_path, arrays, words):
    with pytest.raises(PfedulError, match=words):
        read(save(tmp_path, **arrays))


def test_files_of_another_kind_are_refused(tmp_path):
    np.save(tmp_path / "lone.npy", X)
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("lone.npy", "text.npz", "empty.npz"):
        with pytest.raises(PfedulError, match=r"not an \.npz file"):
            read(name, tmp_path)
