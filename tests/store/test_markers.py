"""Only folders that pfedul made are deleted, and only their owner can read them."""

import os
import shutil
from pathlib import Path

import pytest

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from pfedul import PfedulError
from pfedul.store.copies import clear_notes, clear_rehearsal, copies_erased
from pfedul.store.marker import MARKER, is_marked, mark, marked_folders, remove


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("markers") / "run", rounds=1, evaluate_every=1)


@pytest.fixture
def run(start, tmp_path) -> Path:
    return copied(start, tmp_path / "run")


PLACES = ["oracles", "rehearsal", "comparisons", "unlearning"]


@pytest.mark.parametrize("place", PLACES)
def test_files_of_the_users_own_are_never_deleted(place, run):
    (run / place / "photos").mkdir(parents=True)
    own = [run / place / "notes.txt", run / place / "photos/one.jpg", run / place / ".hidden"]
    for file in own:
        file.write_text("mine")
    mark(run / place / "left")
    with deep_again(run) as federation:
        federation.forget(TARGET)
    clear_rehearsal(run)
    clear_notes(run)
    with copies_erased(run):
        pass
    assert all(file.read_text() == "mine" for file in own)
    assert not (run / place / "left").exists()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["ledger.db", "personal.safetensors", "clients.json"])
def test_what_an_older_version_left_stands_in_the_way_of_a_removal(name, place, run):
    """It may have the target in it, and nothing says that pfedul may delete it."""
    old = run / place / "0123456789abcdef"
    (old / "clients").mkdir(parents=True)
    (old / "clients" / name).write_text("?")
    with deep_again(run) as federation, pytest.raises(PfedulError, match="delete it or move it"):
        federation.forget(TARGET)
    assert (old / "clients" / name).read_text() == "?"
    shutil.rmtree(run / place)
    with deep_again(run) as federation:
        federation.forget(TARGET)


def test_an_older_oracle_without_the_target_does_not(run, tmp_path):
    shutil.copytree(run, tmp_path / "oracle")
    with deep_again(run) as federation:
        federation.forget(TARGET)
        oracle = run / "oracles/0123456789abcdef"
        shutil.copytree(tmp_path / "oracle", oracle)
        with pytest.raises(PfedulError, match="delete it or move it"):
            federation.forget("c0")
        shutil.rmtree(oracle)
        federation.forget("c0")


def test_a_folder_with_something_in_it_cannot_become_pfeduls(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/thesis.txt").write_text("a year of work")
    for function in (mark, remove):
        with pytest.raises(PfedulError, match="not one that pfedul made"):
            function(tmp_path / "own")
    assert (tmp_path / "own/thesis.txt").read_text() == "a year of work"


def test_a_link_to_a_marked_folder_is_not_one(tmp_path):
    mark(tmp_path / "place/real")
    (tmp_path / "place/link").symlink_to(tmp_path / "place/real")
    assert marked_folders(tmp_path / "place") == [tmp_path / "place/real"]
    with pytest.raises(PfedulError, match="not one that pfedul made"):
        remove(tmp_path / "place/link")


def test_a_killed_deletion_can_be_finished(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    mark(folder)
    for name in ("a", "z"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("x")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            remove(folder)
    assert is_marked(folder)
    remove(folder)
    assert not folder.exists()
    remove(folder)


def _interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


def test_a_run_itself_has_no_marker(run):
    assert not (run / MARKER).exists()


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o027, 0o750), (0o077, 0o700)])
def test_a_run_is_as_open_as_the_umask_says_but_what_is_personal_is_not(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        trained(tmp_path / "run", rounds=1, evaluate_every=1)
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "run").iterdir() if p.is_dir()}
    assert modes == {"clients": 0o700, "records": 0o700}
    assert (tmp_path / "run").stat().st_mode & 0o777 == mode
    assert (tmp_path / "run/ledger.db").stat().st_mode & 0o777 == mode & 0o666
