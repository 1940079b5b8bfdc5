"""A run of somebody else that names code: nothing of it is imported unless the user says so."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from helpers.commands import call, refuse, succeed
from helpers.own_code import CODE, QUICK, working_in, write_module
from pfedul import Federation
from pfedul.errors import PfedulError
from pfedul.flower.client import _model_and_data
from pfedul.run.owncode import CODE as SETTINGS
from pfedul.run.owncode import code_in
from pfedul.settings import Settings, read_settings, settings_row
from pfedul.store.chain import settings_entry
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE as LEDGER


def names_of(module: str) -> tuple[str, ...]:
    return ("--data", f"{module}:clients", "--model", f"{module}:network:hidden=4")


MODULES = {"evil": "runs.evil.payload", "flat": "payload", "linked": "linked"}
"""Runs of somebody else, and the modules that they name."""

NAMES = names_of(MODULES["evil"])
OPEN = ("evaluate", "inspect", "train", "rehearse", "forget", "compare", "recalibrate", "admit")
ONE_CLIENT = {"inspect", "rehearse", "forget", "compare", "admit"}


def words(command: str, run: str) -> tuple[str, ...]:
    return (command, run, *(("--client", "c1") if command in ONE_CLIENT else ()))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Runs of somebody with another key, with code in their folders."""
    folder = tmp_path_factory.mktemp("theirs")
    for module in MODULES.values():
        *above, name = module.split(".")
        write_module(folder.joinpath(*above), name)
    with working_in(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "configuration"))
        for run, module in MODULES.items():
            succeed("train", f"made/{run}", *names_of(module), *QUICK)
            shutil.copy(folder / "payload.py", folder / "made" / run)
    return folder / "made"


@pytest.fixture
def here(theirs, tmp_path):
    """The user's folder with these runs, and with a module of the user's own."""
    shutil.copytree(theirs, tmp_path / "runs")
    write_module(tmp_path)
    with working_in(tmp_path):
        yield tmp_path
    assert not [*tmp_path.glob("runs/*/imported")]


@pytest.mark.parametrize("command", OPEN)
@pytest.mark.usefixtures("here")
def test_its_code_is_not_imported(command):
    succeed("key", "--accept", "runs/evil")
    sentence = refuse(*words(command, "runs/evil"))
    assert "names code and was not signed with your key" in sentence
    assert sentence.endswith(f"say so with {' '.join(NAMES)}.")


def test_it_can_be_looked_at(here):
    succeed("status", "runs/evil")
    succeed("report", "runs/evil", "--output", here / "page.html")
    assert "payload.py: the ledger does not know this file" in call("verify", "runs/evil").stdout


@pytest.mark.parametrize("command", ["evaluate", "train"])
@pytest.mark.usefixtures("here")
def test_code_inside_the_run_is_not_imported_even_if_it_is_named(command):
    succeed("key", "--accept", "runs/evil")
    sentence = refuse(command, "runs/evil", *NAMES)
    assert "code is never imported from a run folder" in sentence


def test_nor_from_the_current_folder_if_that_is_the_run(here, monkeypatch):
    monkeypatch.chdir(here / "runs/flat")
    assert "No module named 'payload'" in refuse("evaluate", ".", *names_of("payload"))


def test_nor_through_a_link(here):
    (here / "linked.py").symlink_to(here / "runs/linked/payload.py")
    sentence = refuse("evaluate", "runs/linked", *names_of("linked"))
    assert "code is never imported from a run folder" in sentence


@pytest.mark.usefixtures("here")
def test_nor_from_its_configuration_used_for_another_run():
    file = "runs/evil/federation.toml"
    assert "names code and lies in a run folder" in refuse("train", "new", "--config", file)
    Path("linked.toml").symlink_to(file)
    assert "names code and lies in a run folder" in refuse(
        "train", "new", "--config", "linked.toml"
    )
    assert "names code" in refuse("train", "new", "--config", file, *NAMES[:2])


@pytest.mark.usefixtures("here")
def test_nor_from_a_configuration_deep_in_it_or_that_leads_out_of_it():
    run = Path("runs/evil")
    deep = run / "certificates/deep/mine.toml"
    deep.parent.mkdir(parents=True)
    shutil.copy(run / "federation.toml", deep)
    (run / "federation.toml").replace("outside.toml")
    (run / "federation.toml").symlink_to(Path("outside.toml").absolute())
    for file in (deep, run / "federation.toml"):
        assert "names code and lies in" in refuse("train", "new", "--config", file)
        sentence = refuse("train", "new", "--config", file, *NAMES)
        assert "code is never imported from a run folder" in sentence


def test_the_advice_can_be_pasted_into_a_shell():
    settings = {"model": "nets:build:a=$(touch imported)", "data": "digits"}
    assert code_in(settings) == ["--model 'nets:build:a=$(touch imported)'"]


@pytest.mark.usefixtures("here")
def test_objects_from_python_confirm_nothing():
    own = {name: lambda: None for name in SETTINGS}
    with pytest.raises(PfedulError):
        Federation.open("runs/evil", **own)
    assert "names code" in refuse("evaluate", "runs/evil")


def test_an_upgrade_signs_what_it_finds_and_confirms_nothing(here):
    with closing(sqlite3.connect(here / "runs/evil/ledger.db")) as ledger:
        ledger.executescript(
            "DROP TABLE chain; DROP TABLE admissions;"
            "UPDATE meta SET value = '3' WHERE key = 'format'"
        )
    succeed("key", "--accept", "runs/evil")
    assert "names code" in refuse("evaluate", "runs/evil")


def test_a_copy_of_the_users_own_run_that_now_names_other_code(here):
    names = {"data": "wards:clients", "model": "wards:Small"}
    Federation.create("runs/mine", rounds=0, **names).close()
    file = here / "runs/mine/federation.toml"
    file.write_text(file.read_text().replace("wards:clients", "runs.mine.payload:clients"))
    shutil.copy(here / "wards.py", here / "runs/mine/payload.py")
    assert "was changed by hand" in refuse("evaluate", "runs/mine")
    with pytest.MonkeyPatch.context() as patch, closing(Ledger(file.with_name(LEDGER))) as ledger:
        patch.setenv("XDG_CONFIG_HOME", str(here / "configuration"))
        changed = settings_row(read_settings(file.parent))
        ledger.write([changed, settings_entry(file.read_bytes())])
    assert "names code and was not signed with your key" in refuse("evaluate", "runs/mine")


def test_a_node_imports_nothing_that_a_server_names(here):
    settings = Settings(data="wards:clients", model="wards:Small")
    with pytest.raises(PfedulError, match="own models or data: use client_app"):
        _model_and_data(None, settings, None)
    assert not (here / "imported").exists()


@pytest.fixture
def a_colleagues(tmp_path):
    """A run of another key, taken over, that names a module which both have."""
    write_module(tmp_path)
    with working_in(tmp_path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
            succeed("train", "run", *CODE, *QUICK)
        succeed("key", "--accept", "run")
        (tmp_path / "imported").unlink()
        yield tmp_path


def test_named_once_in_the_call_it_is_the_users_own(a_colleagues):
    refuse("train", "run", "--rounds", "2")
    assert f"say so with {' '.join(CODE[2:])}" in refuse("train", "run", *CODE[:2])
    assert not (a_colleagues / "imported").exists()
    succeed("evaluate", "run", *CODE)  # only reads, and so signs nothing
    refuse("train", "run", "--rounds", "2")
    succeed("train", "run", "--rounds", "2", *CODE)
    succeed("train", "run", "--rounds", "3")
    assert "the file that was signed" in succeed("verify", "run")


def test_objects_do_not_sign_for_names(a_colleagues):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(a_colleagues / "configuration"))
        with Federation.open("run", read_only=True) as federation:
            data = {name: (own.train, own.test) for name, own in federation.bench.data.items()}
            model = federation.bench.build_model
    with Federation.open("run", data=data, model=model):
        pass
    assert "names code" in refuse("evaluate", "run")
    assert read_settings(a_colleagues / "run").model == CODE[3]
