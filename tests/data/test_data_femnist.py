"""FEMNIST from LEAF's json files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.femnist import FemnistOptions, load
from pfedul.errors import PfedulError
from pfedul.settings import Settings


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
    dataset = load(SearchPath((tmp_path,)), FemnistOptions())
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
    x = load(SearchPath((tmp_path,)), FemnistOptions()).train.x
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
        load(SearchPath((tmp_path,)), FemnistOptions())


def test_what_is_not_a_number_is_refused(tmp_path):
    for part in ("train", "test"):
        write(tmp_path, part, leaf({"w": [1]}, float("nan")))
    with pytest.raises(PfedulError, match="NaN"):
        load(SearchPath((tmp_path,)), FemnistOptions())


def drawn(labels: list[int], seed: int) -> dict:
    """A writer whose images all differ."""
    rows = [[(seed * 1000 + number) / 1e6] * 784 for number in range(len(labels))]
    return {"x": rows, "y": labels}


def held_out(root: Path, writers: dict[str, dict], share: float) -> dict[str, list[float]]:
    """Writer -> the brightness of its test images, when LEAF's parts are dealt anew."""
    for part, own in (("train", slice(2, None)), ("test", slice(2))):
        data = {n: {key: rows[own] for key, rows in w.items()} for n, w in writers.items()}
        write(root, part, {"users": list(writers), "user_data": data})
    dataset = load(SearchPath((root,)), FemnistOptions(test=share))
    assert len(dataset.train) + len(dataset.test) == sum(len(w["y"]) for w in writers.values())
    both = torch.cat([dataset.train.x, dataset.test.x]).flatten(1)[:, 0]
    assert len(both.unique()) == len(both), "no image is in both parts, and none is lost"
    points = dataset.test.x[:, 0, 0, 0].tolist()
    owners = dataset.owners.test.tolist()
    return {n: [p for p, owner in zip(points, owners, strict=True) if owner == n] for n in writers}


def test_the_parts_of_each_writer_can_be_dealt_anew(tmp_path):
    writers = {"a": drawn([1, 2] * 10, 1), "b": drawn([3] * 8, 2)}
    test = held_out(tmp_path, writers, 0.5)
    assert {name: len(points) for name, points in test.items()} == {"a": 10, "b": 4}
    alone = held_out(tmp_path, {"b": writers["b"]}, 0.5)
    assert alone["b"] == test["b"], "the draw of a writer depends on no other writer"


def test_a_run_on_leafs_own_parts_is_named_as_before():
    assert Settings(data="femnist").data == "femnist"
    assert Settings(data="femnist:0.5").data == "femnist:test=0.5"
    with pytest.raises(PfedulError, match="test"):
        Settings(data="femnist:test=1")


def test_real_writers_are_read(real_data):
    dataset = load(SearchPath((real_data("femnist"),)), FemnistOptions())
    assert dataset.owners is not None
    assert set(dataset.owners.test) <= set(dataset.owners.train)
    assert len(dataset.owners.train) == len(dataset.train)
    assert float(dataset.train.x.mean().abs()) < 0.1
    assert abs(float(dataset.train.x.std()) - 1) < 0.1
