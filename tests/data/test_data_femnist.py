"""FEMNIST from LEAF's json files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.femnist import load
from pfedul.errors import PfedulError


def leaf(writers: dict[str, list[int]], paper: float = 1.0) -> dict:
    rows = {
        name: {"x": [[paper] * 784 for _ in labels], "y": labels}
        for name, labels in writers.items()
    }
    counts = [len(labels) for labels in writers.values()]
    return {"users": list(writers), "num_samples": counts, "user_data": rows}


def write(root: Path, part: str, content: object, name: str = "all_data_0.json") -> None:
    (root / part).mkdir(parents=True, exist_ok=True)
    (root / part / name).write_text(json.dumps(content))


@pytest.mark.parametrize("folder", ["", "femnist", "femnist/data"])
def test_images_labels_and_writers_are_read_from_all_files(tmp_path, folder):
    root = tmp_path / folder
    write(root, "train", leaf({"f1_01": [61, 0], "f2_02": [5]}))
    write(root, "train", leaf({"f3_03": [7]}), "all_data_1.json")
    write(root, "test", leaf({"f2_02": [5], "f1_01": [1, 2]}))
    dataset = load(SearchPath((tmp_path,)), NoOptions())
    assert dataset.train.x.shape == (4, 1, 28, 28)
    assert dataset.train.x.dtype == torch.float32
    assert dataset.train.y.tolist() == [61, 0, 5, 7]
    assert dataset.owners is not None
    assert dataset.owners.train.tolist() == ["f1_01", "f1_01", "f2_02", "f3_03"]
    assert dataset.owners.test.tolist() == ["f2_02", "f1_01", "f1_01"]
    assert dataset.classes == 62


@pytest.mark.parametrize(("paper", "wanted"), [(1.0, -0.0363 / 0.1597), (0.0, 0.9637 / 0.1597)])
def test_paper_is_low_and_ink_is_high(tmp_path, paper, wanted):
    for part in ("train", "test"):
        write(tmp_path, part, leaf({"w": [0]}, paper))
    x = load(SearchPath((tmp_path,)), NoOptions()).train.x
    assert x.flatten().tolist() == pytest.approx([wanted] * 784, abs=1e-5)


BAD = {
    "no users": {"user_data": {}},
    "an unknown user": {"users": ["w"], "user_data": {}},
    "a label too high": leaf({"w": [62]}),
    "fewer labels": {"users": ["w"], "user_data": {"w": {"x": [[0] * 784] * 2, "y": [1]}}},
    "short rows": {"users": ["w"], "user_data": {"w": {"x": [[0] * 783], "y": [1]}}},
    "a list": [1],
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_other_json_is_refused(tmp_path, content):
    write(tmp_path, "train", leaf({"w": [1]}))
    write(tmp_path, "test", content)
    with pytest.raises(PfedulError, match=r"test/all_data_0\.json is not LEAF's json"):
        load(SearchPath((tmp_path,)), NoOptions())


def test_what_is_not_a_number_is_refused(tmp_path):
    for part in ("train", "test"):
        write(tmp_path, part, leaf({"w": [1]}, float("nan")))
    with pytest.raises(PfedulError, match="NaN"):
        load(SearchPath((tmp_path,)), NoOptions())


def test_real_writers_are_read(real_data):
    dataset = load(SearchPath((real_data("femnist"),)), NoOptions())
    assert dataset.owners is not None
    assert set(dataset.owners.test) <= set(dataset.owners.train)
    assert len(dataset.owners.train) == len(dataset.train)
    assert float(dataset.train.x.mean().abs()) < 0.1
    assert abs(float(dataset.train.x.std()) - 1) < 0.1
