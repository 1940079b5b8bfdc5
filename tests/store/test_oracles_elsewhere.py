"""Oracles on another disk: an option, and both sides must agree."""

import json
import shutil
from pathlib import Path

import pytest

from helpers.auditing import rehearse
from helpers.commands import refuse
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from pfedul import PfedulError
from pfedul.store.marker import marked_folders
from pfedul.store.oracles import KEY_FILE, keep_oracles_at, oracles_folder


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("elsewhere") / "run", rounds=1, evaluate_every=1)


@pytest.fixture
def run(start, tmp_path) -> Path:
    return copied(start, tmp_path / "run")


def test_they_are_trained_there_and_erased_with_their_clients(run, tmp_path):
    disk = tmp_path / "disk/oracles"
    keep_oracles_at(run, disk)
    keep_oracles_at(run, disk)
    with deep_again(run) as federation:
        rehearse(federation, TARGET)
        assert marked_folders(disk)
        assert not (run / "oracles").exists()
        (disk / "notes.txt").write_text("mine")
        federation.forget(TARGET)
        assert marked_folders(disk)
        federation.forget("c0")
    assert marked_folders(disk) == []
    assert (disk / "notes.txt").read_text() == "mine"
    assert disk.stat().st_mode & 0o777 == 0o700


def test_a_foreign_run_cannot_name_a_folder(run, tmp_path):
    other = tmp_path / "other"
    (other / "thesis").mkdir(parents=True)
    for words in ({"folder": str(other), "key": "x"}, {"folder": 1}, [], {}):
        (run / "oracles-at").write_text(json.dumps(words))
        with pytest.raises(PfedulError, match="oracles-at"):
            deep_again(run)
    assert (other / "thesis").is_dir()


def test_a_disk_that_is_not_mounted_is_said(run, tmp_path):
    keep_oracles_at(run, tmp_path / "disk")
    shutil.rmtree(tmp_path / "disk")
    with pytest.raises(PfedulError, match="mount that disk"):
        deep_again(run)


def test_only_an_empty_folder_outside_the_run_is_taken(run, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.txt").write_text("a year of work")
    for place in (run / "oracles-here", tmp_path / "full"):
        with pytest.raises(PfedulError, match="not an empty folder outside the run"):
            keep_oracles_at(run, place)
    assert oracles_folder(run) == run / "oracles"


def test_oracles_that_are_there_stay_where_they_are(run, tmp_path):
    with deep_again(run) as federation:
        rehearse(federation, TARGET)
    with pytest.raises(PfedulError, match="delete them first"):
        keep_oracles_at(run, tmp_path / "disk")
    assert not (tmp_path / "disk" / KEY_FILE).exists()


def test_the_option_is_checked_before_anything_is_trained(tmp_path):
    words = ["--client", "c0", "--oracles-at", tmp_path]
    assert "no run at" in refuse("rehearse", tmp_path / "none", *words)
