"""A forgotten client's node leaves nothing in a deployment once it has confirmed its erasure."""

import hashlib
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("flwr")

from flower.test_deployment import file_erasure
from helpers.toys import create
from pfedul.flower.deployment.certificates import make_node_key, node_key
from pfedul.flower.deployment.gone import remove_gone, remove_gone_keys
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.signing import public_form


@pytest.fixture
def layout(tmp_path):
    """A deployment in which c1 was forgotten, and its key is barred."""
    layout = DeploymentPaths(tmp_path / "run")
    with create(layout.run) as federation:
        federation.train()
        federation.forget("c1")
    for client in ("c0", "c1", "c2"):
        make_node_key(layout, client)
        for folder in (layout.node(client), layout.process_home(client), layout.log(client).parent):
            folder.mkdir(parents=True, exist_ok=True)
        layout.log(client).write_text(f"{client} has 386 samples")
    key = hashlib.sha256(public_form(node_key(layout, "c1"))).hexdigest()
    with closing(sqlite3.connect(layout.run / "ledger.db")) as ledger, ledger:
        ledger.execute("INSERT INTO barred (node_key, request) VALUES (?, 1)", (key,))
    return layout


def left_of(layout, client):
    return [path for path in layout.folder.rglob("*") if path.name.split(".")[0] == client]


def test_the_key_goes_at_once_and_everything_when_the_process_has_ended(layout):
    assert remove_gone_keys(layout) == ["c1"]
    assert not layout.key("c1").exists()
    assert layout.clients() == ["c0", "c2"]
    remove_gone(layout)
    assert left_of(layout, "c1") == []
    assert len(left_of(layout, "c0")) == len(left_of(layout, "c2")) == 5


def test_a_node_that_has_yet_to_erase_its_folder_is_kept(layout):
    file_erasure(layout.run, "c1")
    remove_gone(layout)
    assert len(left_of(layout, "c1")) == 5


def test_the_new_key_of_a_client_that_comes_back_is_kept(layout):
    remove_gone(layout)
    make_node_key(layout, "c1")
    remove_gone(layout)
    assert layout.clients() == ["c0", "c1", "c2"]


def test_without_a_run_there_is_nothing_to_remove(tmp_path):
    assert remove_gone_keys(DeploymentPaths(tmp_path / "run")) == []
