"""A run folder that somebody else made touches nothing outside itself."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from helpers.toys import create, reopen
from pfedul import PfedulError
from pfedul.status import read_status
from pfedul.store.copies import sweep
from pfedul.store.ledger import Ledger
from pfedul.store.paths import check_move, inside


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("foreign") / "run"
    with create(run, rounds=1) as federation:
        federation.train()
    return run


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def home(tmp_path) -> Path:
    """Files of the user's, outside the run folder."""
    folder = tmp_path / "home"
    (folder / "notes").mkdir(parents=True)
    (folder / "thesis.txt").write_text("a year of work")
    (folder / "notes/note.txt").write_text("a thought")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file()}


def execute(run: Path, sql: str, *values: str) -> None:
    with closing(sqlite3.connect(run / "ledger.db")) as database, database:
        database.execute(sql, values)


PENDING = "INSERT OR REPLACE INTO pending (path, staged) VALUES (?, ?)"
OUT = ["{home}/thesis.txt", "../home/thesis.txt", "clients/c0/../../../home/thesis.txt"]


@pytest.mark.parametrize("path", OUT)
@pytest.mark.parametrize("staged", ["staging/9/p", ""])
def test_a_pending_row_cannot_overwrite_or_delete_files_elsewhere(path, staged, run, home):
    (run / "staging/9").mkdir(parents=True)
    (run / "staging/9/p").write_text("touch pwned")
    execute(run, PENDING, path.format(home=home), staged)
    before = contents(home)
    with pytest.raises(PfedulError, match="does not belong in a run folder"):
        reopen(run)
    assert contents(home) == before


@pytest.mark.parametrize("staged", OUT)
def test_a_pending_row_cannot_move_files_into_the_run(staged, run, home):
    execute(run, PENDING, "records/fisher/c0.safetensors", staged.format(home=home))
    execute(run, PENDING, "reports/loot", staged.format(home=home))
    before = contents(home)
    with pytest.raises(PfedulError, match="does not belong in a run folder"):
        reopen(run)
    assert contents(home) == before
    assert not (run / "reports").exists()


@pytest.mark.parametrize("path", [*OUT, "records/../../home/thesis.txt", "ledger.db"])
def test_a_files_row_cannot_name_a_file_elsewhere(path, run, home):
    text = path.format(home=home)
    execute(run, "INSERT INTO files (path, sha256, bytes) VALUES (?, 'x', 1)", text)
    with pytest.raises(PfedulError, match="does not belong in a run folder"):
        reopen(run)


def test_a_clients_name_cannot_lead_out(run, home):
    execute(run, "UPDATE clients SET client = '../../home' WHERE client = 'c0'")
    before = contents(home)
    with pytest.raises(PfedulError), reopen(run) as federation:
        federation.train(2)
    assert contents(home) == before


LINKS = [
    *("oracles", "rehearsal", "comparisons", "reports", "staging", "unlearning", "clients/c0/x"),
    *("lock", "federation.toml.new", "ledger.db-journal", "comparisons/key", "reports/page.html"),
    *("records/fisher", "staging/unit", "unlearning/key/phase.new", "shared.safetensors.new"),
]


@pytest.mark.parametrize("name", LINKS)
def test_no_link_inside_a_run_is_followed(name, run, home):
    link, before = run / name, contents(home)
    shutil.rmtree(link, ignore_errors=True)
    link.unlink(missing_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(home / "thesis.txt" if "." in name or name == "lock" else home)
    for look in (reopen, read_status):
        with pytest.raises(PfedulError, match="is a symbolic link"):
            look(run)
    assert contents(home) == before


@pytest.mark.parametrize("name", ["ledger.db", "shared.safetensors", "clients", "federation.toml"])
def test_not_even_a_link_to_the_same_content(name, run, tmp_path):
    shutil.move(run / name, tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PfedulError, match="is a symbolic link"):
        reopen(run)


def test_a_ledger_is_not_read_through_a_link(run, tmp_path):
    (tmp_path / "ledger.db").symlink_to(run / "ledger.db")
    with pytest.raises(PfedulError, match="is a symbolic link"):
        Ledger(tmp_path / "ledger.db", read_only=True)


def test_a_new_run_next_to_a_deployment_follows_no_link(tmp_path, home):
    (tmp_path / "run/deployment").mkdir(parents=True)
    (tmp_path / "run/lock").symlink_to(home / "thesis.txt")
    before = contents(home)
    with pytest.raises(PfedulError, match="is a symbolic link"):
        create(tmp_path / "run")
    assert contents(home) == before


def test_a_draft_whose_lock_is_a_link_is_left_alone(tmp_path, home):
    (tmp_path / ".run.draft").mkdir()
    (tmp_path / ".run.draft/lock").symlink_to(home / "thesis.txt")
    (tmp_path / ".run.link").symlink_to(home)
    (home / "lock").write_text("1")
    before = contents(home)
    create(tmp_path / "run").close()
    assert contents(home) == before
    assert (tmp_path / ".run.draft").is_dir()


@pytest.mark.parametrize("name", ["", "/", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/."])
def test_a_path_stays_inside(name, tmp_path):
    with pytest.raises(PfedulError):
        inside(tmp_path, name)


@pytest.mark.parametrize(
    "name",
    [
        *("init.safetensors", "shared.safetensors", "clients/c.0_a-B/personal.safetensors"),
        *("records/fisher/c0.safetensors", "records/fisher-total.safetensors"),
        "records/clusters/3/before-12.safetensors",
    ],
)
def test_names_of_the_layout_are_taken(name, tmp_path):
    check_move(f"staging/7/{name}", name)
    check_move("", name)
    assert inside(tmp_path, name) == tmp_path / name


def test_a_report_of_any_name_can_be_removed_but_not_written():
    check_move("", "reports/a page: draft.html")
    for staged in ("staging/1/reports/x", "staging/1/reports/../../x"):
        with pytest.raises(PfedulError):
            check_move(staged, staged.removeprefix("staging/1/"))


@pytest.mark.parametrize("name", ["oracles", "rehearsal", "comparisons"])
def test_sweeping_follows_no_link_either(name, run, home):
    (run / name).symlink_to(home)
    before = contents(home)
    with pytest.raises(PfedulError, match="is a symbolic link"):
        sweep(run, [])
    assert contents(home) == before


@pytest.mark.parametrize("name", ["ledger.db", "lock"])
def test_a_file_with_another_name_elsewhere_is_not_written(name, run, home):
    """An archive can hold hard links; a ledger and a lock are changed in place."""
    (home / name).unlink(missing_ok=True)
    (run / name).touch()
    (home / name).hardlink_to(run / name)
    before = (home / name).read_bytes()
    with pytest.raises(PfedulError, match="a hard link"):
        reopen(run)
    assert (home / name).read_bytes() == before
