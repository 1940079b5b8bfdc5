"""The run folder: commits that are all or nothing, locks, damage, and real kills."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pfedul import PfedulError
from pfedul.ledger import Ledger, insert
from pfedul.store import SHARED_FILE, Store
from pfedul.tensorfile import encode, read_file
from toys import client_data, create, reopen, tensor_digests

ROUNDS = 6


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """A run that is created and not yet trained."""
    run = tmp_path_factory.mktemp("store") / "start"
    create(run, rounds=ROUNDS, personalization="ditto").close()
    return run


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory) -> dict[str, str]:
    """The tensors of the same run, trained in one go."""
    run = tmp_path_factory.mktemp("store") / "uninterrupted"
    shutil.copytree(start, run)
    with reopen(run) as federation:
        federation.train()
    return tensor_digests(run)


def kill(run: Path, *how: str) -> list[str]:
    here = Path(__file__).parent
    command = [sys.executable, str(here / "killing.py"), str(run), *how]
    environment = {**os.environ, "PYTHONPATH": str(here), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments_it_ends_with_the_same_bits(seed, start, uninterrupted, tmp_path):
    shutil.copytree(start, tmp_path / "run")
    ends = kill(tmp_path / "run", "random", str(seed))
    assert ends.count("killed") >= 20
    assert ends[-1] == "exit 0"
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_killed_before_each_step_of_a_commit_it_ends_with_the_same_bits(
    start, uninterrupted, tmp_path
):
    shutil.copytree(start, tmp_path / "run")
    ends = kill(tmp_path / "run", "steps")
    assert ends.count("killed") >= 20
    assert set(ends) == {"killed", "exit 0"}
    assert tensor_digests(tmp_path / "run") == uninterrupted
    assert not (tmp_path / "run/staging").exists()


@pytest.mark.parametrize("every", [1, 2, 4, 100])
def test_checkpoint_every_changes_no_bit(every, start, uninterrupted, tmp_path):
    shutil.copytree(start, tmp_path / "run")
    with reopen(tmp_path / "run", checkpoint_every=every) as federation:
        federation.train()
        commits = federation.store.ledger.value("SELECT COUNT(*) FROM commits")
    assert tensor_digests(tmp_path / "run") == uninterrupted
    assert commits == -(-ROUNDS // every)


def test_rounds_that_were_not_committed_are_replayed(start, uninterrupted, tmp_path):
    """Closed without a commit, as if the process had ended there."""
    shutil.copytree(start, tmp_path / "run")
    federation = reopen(tmp_path / "run", checkpoint_every=100)
    for _ in range(3):
        federation._one_round(lambda _: None)
    federation.close()
    with reopen(tmp_path / "run") as federation:
        assert federation.rounds == 0
        federation.train()
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_ctrl_c_keeps_whole_rounds_and_drops_the_broken_one(start, uninterrupted, tmp_path):
    shutil.copytree(start, tmp_path / "run")

    def interrupt(progress):
        if progress.round == 3 and progress.replies == 2:
            raise KeyboardInterrupt

    federation = reopen(tmp_path / "run", checkpoint_every=100)
    with pytest.raises(KeyboardInterrupt):
        federation.train(progress=interrupt)
    federation.close()
    with reopen(tmp_path / "run") as federation:
        assert federation.rounds == 2
        federation.train()
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_a_second_process_is_refused(start):
    with reopen(start), pytest.raises(PfedulError, match=f"Another process \\(pid {os.getpid()}"):
        reopen(start)


@pytest.mark.parametrize("name", [SHARED_FILE, "clients/c1/personal.safetensors"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "foreign"])
def test_a_damaged_file_is_refused_and_named(name, damage, start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    file = run / name
    content = file.read_bytes()
    if damage == "truncate":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "foreign":
        file.write_bytes(encode({"other": torch.zeros(1)}))
    else:
        file.unlink()
    with pytest.raises(PfedulError, match=str(file)):
        reopen(run)
    if damage != "remove":
        file.write_bytes(content)
        reopen(run).close()


def test_a_truncated_tensor_file_is_refused(tmp_path):
    file = tmp_path / "x.safetensors"
    file.write_bytes(encode({"w": torch.ones(100)})[:-7])
    with pytest.raises(PfedulError, match="damaged or is not a tensor file"):
        read_file(file)


def test_a_ledger_that_is_no_ledger_is_refused(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    (run / "ledger.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(PfedulError, match="not a readable pfedul ledger"):
        reopen(run)


def test_a_newer_format_is_refused(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    with sqlite3.connect(run / "ledger.db") as database:
        database.execute(*insert("meta", key="format", value="99"))
    with pytest.raises(PfedulError, match="has format 99"):
        reopen(run)


def test_a_ledger_write_is_all_or_nothing(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    ledger = Ledger(run / "ledger.db")
    with pytest.raises(sqlite3.Error):
        ledger.write([insert("meta", key="a", value="b"), ("INSERT INTO nowhere VALUES (1)", ())])
    assert ledger.meta("a") is None
    ledger.close()


def test_equal_tensors_give_equal_bytes():
    one = {"b": torch.ones(3), "a": torch.arange(4)}
    two = {"a": torch.arange(4), "b": torch.ones(3)}
    assert encode(one) == encode(two)
    assert encode(one) != encode({**two, "b": torch.zeros(3)})


def test_tied_tensors_can_be_written(tmp_path):
    tensor = torch.arange(4.0)
    (tmp_path / "x").write_bytes(encode({"a": tensor, "b": tensor}))
    assert read_file(tmp_path / "x")["b"].tolist() == tensor.tolist()


def test_a_failed_creation_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pfedul.store.os.fsync", fail)
    with pytest.raises(PfedulError, match="No space left on device"):
        create(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_training_loses_nothing(start, uninterrupted, tmp_path, monkeypatch):
    shutil.copytree(start, tmp_path / "run")
    write, left = Path.write_bytes, [7]

    def fill_up(path, data):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fill_up)
        with reopen(tmp_path / "run") as federation, pytest.raises(PfedulError, match="No space"):
            federation.train()
    with reopen(tmp_path / "run") as federation:
        assert federation.rounds == 1
        federation.train()
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    def deny(*_, **__):
        raise PermissionError(13, "Permission denied", str(tmp_path / "run"))

    monkeypatch.setattr("pfedul.store.tempfile.mkdtemp", deny)
    with pytest.raises(PfedulError, match="No permission to write"):
        create(tmp_path / "run")


def test_other_data_or_another_model_are_refused(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    with pytest.raises(PfedulError, match="data of client 'c0' are not those"):
        reopen_with(run, data=client_data(train=27))
    with pytest.raises(PfedulError, match="model is not the one"):
        reopen_with(run, model=lambda: torch.nn.Sequential(torch.nn.Linear(4, 3)))
    with pytest.raises(PfedulError, match="open it there, with Federation"):
        reopen_with(run, data=None)
    reopen(run).close()


def reopen_with(run: Path, **changes):
    from pfedul import Federation
    from toys import WithNorm

    return Federation.open(run, **{"data": client_data(), "model": WithNorm, **changes})


def test_an_open_store_reads_what_is_staged(start, tmp_path):
    shutil.copytree(start, tmp_path / "run")
    store = Store.open(tmp_path / "run")
    store.stage(SHARED_FILE, {"w": torch.ones(1)})
    assert "w" not in store.read(SHARED_FILE)
    store.keep([])
    assert store.read(SHARED_FILE)["w"].item() == 1
    store.close()
    assert "w" not in read_file(tmp_path / "run" / SHARED_FILE)
