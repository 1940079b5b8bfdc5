"""The run folder: commits that are all or nothing, locks, damage, and real kills."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers.scripts import run_script
from helpers.told import AtProgress
from helpers.toys import client_data, create, reopen, tensor_digests
from pfedul import PfedulError
from pfedul.base.tensorfile import encode, read_file
from pfedul.run.training import play_round
from pfedul.store.ledger import Ledger, insert
from pfedul.store.marker import mark
from pfedul.store.paths import SHARED_FILE
from pfedul.store.store import Store
from pfedul.store.takeover import accept

ROUNDS = 4


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
    here = Path(__file__).parents[1] / "helpers"
    done = run_script(here / "killing.py", run, *how)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments_it_ends_with_the_same_bits(seed, start, uninterrupted, tmp_path):
    shutil.copytree(start, tmp_path / "run")
    ends = kill(tmp_path / "run", "random", str(seed))
    assert ends.count("killed") >= 10
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


@pytest.mark.parametrize("every", [1, 2, 3, 100])
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
        play_round(federation, federation.clients)
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
        federation.train(callbacks=[AtProgress(interrupt)])
    federation.close()
    with reopen(tmp_path / "run") as federation:
        assert federation.rounds == 2
        federation.train()
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_any_error_keeps_whole_rounds(start, tmp_path):
    shutil.copytree(start, tmp_path / "run")

    def fail(progress):
        if progress.round == 3:
            raise ZeroDivisionError

    federation = reopen(tmp_path / "run", checkpoint_every=100)
    with pytest.raises(ZeroDivisionError):
        federation.train(callbacks=[AtProgress(fail)])
    federation.close()
    with reopen(tmp_path / "run") as federation:
        assert federation.rounds == 2


def test_ctrl_c_inside_a_commit_takes_effect_after_it(start, uninterrupted, tmp_path, monkeypatch):
    shutil.copytree(start, tmp_path / "run")
    write, sent = Ledger.write, []

    def write_and_interrupt(ledger, statements):
        if not sent:
            sent.append(signal.raise_signal(signal.SIGINT))
        write(ledger, statements)

    monkeypatch.setattr(Ledger, "write", write_and_interrupt)
    with reopen(tmp_path / "run") as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.train()
        assert federation.rounds == 1
        federation.train()
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_a_run_does_not_move_when_the_process_changes_its_folder(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with create(Path("run"), rounds=1) as federation:
        monkeypatch.chdir(tmp_path / "b")
        federation.train()
    assert list((tmp_path / "b").iterdir()) == []
    reopen(tmp_path / "a/run").close()


def test_a_failed_opening_lets_go_of_the_lock(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    content = (run / SHARED_FILE).read_bytes()
    (run / SHARED_FILE).write_bytes(b"")
    with pytest.raises(PfedulError) as kept:
        reopen(run)
    (run / SHARED_FILE).write_bytes(content)
    reopen(run).close()
    assert kept.value is not None


def test_settings_changed_by_hand_are_noticed(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    file = run / "federation.toml"
    file.write_text(file.read_text().replace("lr = 0.01", "lr = 0.5"))
    with pytest.raises(PfedulError, match="is not the file that was signed"):
        reopen(run)
    accept(run)
    with pytest.raises(PfedulError, match="changed by hand in a way that makes it another run"):
        reopen(run)


def test_a_symbolic_link_leads_to_the_run(start, tmp_path):
    shutil.copytree(start, tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    reopen(tmp_path / "link").close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "new").symlink_to(tmp_path / "empty")
    create(tmp_path / "new").close()
    assert (tmp_path / "empty/ledger.db").is_file()


def test_what_a_killed_creation_left_is_swept_away(tmp_path):
    draft = tmp_path / ".run.abandoned"
    mark(draft)
    (draft / "clients/c0").mkdir(parents=True)
    (draft / "lock").write_text("1")
    create(tmp_path / "run").close()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_only_looks_like_a_draft_is_left_alone(tmp_path):
    """A run that its user renamed to make room for a new one."""
    create(tmp_path / "run").close()
    (tmp_path / "run").rename(tmp_path / ".run.old")
    create(tmp_path / "run").close()
    reopen(tmp_path / ".run.old").close()


def test_a_draft_that_somebody_works_on_is_left_alone(tmp_path):
    draft = tmp_path / ".run.busy"
    mark(draft)
    with (draft / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        create(tmp_path / "run").close()
        assert draft.is_dir()


def test_the_loser_of_a_race_to_create_is_told(tmp_path, monkeypatch):
    def lose(draft, path):
        create_by_another(path)
        return rename(draft, path)

    rename, calls = Path.rename, []

    def create_by_another(path):
        if not calls:
            calls.append(path)
            path.mkdir()
            (path / "ledger.db").touch()

    monkeypatch.setattr(Path, "rename", lose)
    with pytest.raises(PfedulError, match="already holds a run"):
        create(tmp_path / "run")


def test_the_working_folder_itself_cannot_become_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PfedulError, match="a folder of its own"):
        create(Path("."))


def test_a_ledger_that_another_program_holds_gives_a_sentence(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    ledger = Ledger(run / "ledger.db")
    ledger._db.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(run / "ledger.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(PfedulError, match="cannot be written"):
        ledger.write([insert("meta", key="a", value="b")])
    other.close()
    ledger.close()


def test_a_refused_opening_changes_nothing_in_the_lock_file(start):
    with reopen(start):
        for _ in range(2):
            with pytest.raises(PfedulError, match=r"This process has .* open already"):
                reopen(start)
        assert (start / "lock").read_text() == str(os.getpid())
    assert (start / "lock").is_file()
    reopen(start).close()


def test_a_killed_process_leaves_no_lock_behind(start):
    code = "import sys, time; from pathlib import Path; from pfedul.store.folder import take_lock"
    code += "; lock = take_lock(Path(sys.argv[1])); print('locked', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(start)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(PfedulError, match=rf"Another process \(pid {other.pid}"):
            reopen(start)
        other.kill()
    reopen(start).close()


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
    with pytest.raises(PfedulError, match="no such table"):
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

    monkeypatch.setattr("pfedul.store.store.os.fsync", fail)
    with pytest.raises(PfedulError, match="No space left on device"):
        create(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_training_loses_nothing(start, uninterrupted, tmp_path, monkeypatch):
    shutil.copytree(start, tmp_path / "run")
    write, left = Path.write_bytes, [20]  # a round writes thirteen files

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


@pytest.mark.parametrize("every", [1, 100])
def test_a_unit_that_is_moved_in_part_is_not_committed(
    every, start, uninterrupted, tmp_path, monkeypatch
):
    """Else the personal tensors of some clients would be those of a round that is not there."""
    shutil.copytree(start, tmp_path / "run")
    move, left = os.replace, [20]  # a round moves thirteen files

    def fail_once(source, target):
        left[0] -= "/unit/" in str(source)
        if left[0] == 0:
            left[0] = -1
            raise OSError(5, "Input/output error")
        return move(source, target)

    with reopen(tmp_path / "run", checkpoint_every=every) as federation:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", fail_once)
            with pytest.raises(PfedulError, match="Input/output error"):
                federation.train()
        assert federation.rounds == (1 if every == 1 else 0)
        federation.train()
    assert tensor_digests(tmp_path / "run") == uninterrupted


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    def deny(*_, **__):
        raise PermissionError(13, "Permission denied", str(tmp_path / "run"))

    monkeypatch.setattr(Path, "mkdir", deny)
    with pytest.raises(PfedulError, match="No permission to write"):
        create(tmp_path / "run")


def test_other_data_or_another_model_are_refused(start, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(start, run)
    with pytest.raises(PfedulError, match="data of client 'c0' are not those"):
        reopen_with(run, data=client_data(train=27))
    with pytest.raises(PfedulError, match="model is not the one"):
        reopen_with(run, model=lambda: torch.nn.Sequential(torch.nn.Linear(4, 3)))
    with pytest.raises(PfedulError, match="data of your own; give them again"):
        reopen_with(run, data=None)
    reopen(run).close()


def reopen_with(run: Path, **changes):
    from helpers.toys import WithNorm
    from pfedul import Federation

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


# Beside a deployment


def test_a_run_is_made_beside_a_deployment_and_what_a_killed_process_left(tmp_path):
    run = tmp_path / "run"
    (run / "deployment").mkdir(parents=True)
    (run / "deployment/keys").write_text("kept")
    (run / "clients/old").mkdir(parents=True)
    (run / "shared.safetensors").write_bytes(b"half a run")
    create(run).close()
    assert (run / "deployment/keys").read_text() == "kept"
    assert sorted(path.name for path in (run / "clients").iterdir()) == ["c0", "c1", "c2"]
    with reopen(run) as federation:
        federation.train(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_second_run_beside_a_deployment_is_refused(tmp_path):
    (tmp_path / "run/deployment").mkdir(parents=True)
    create(tmp_path / "run").close()
    before = tensor_digests(tmp_path / "run")
    with pytest.raises(PfedulError, match="already holds a run"):
        create(tmp_path / "run")
    assert tensor_digests(tmp_path / "run") == before


def test_a_folder_with_other_things_is_still_refused(tmp_path):
    (tmp_path / "run/deployment").mkdir(parents=True)
    (tmp_path / "run/thesis.tex").write_text("precious")
    with pytest.raises(PfedulError, match="is not empty and not a run"):
        create(tmp_path / "run")
