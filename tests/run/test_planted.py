"""A backdoor is a setting that names a client: it goes when that client is forgotten."""

import pytest

from helpers.toys import QUICK, client_data
from pfedul import Federation
from pfedul.run.retrained import open_recipe, oracle_recipes
from pfedul.settings import read_settings
from pfedul.store.store import Store


def data():
    return {
        client: tuple((x.repeat(1, 4).view(-1, 1, 4, 4), y) for x, y in parts)
        for client, parts in client_data(3).items()
    }


@pytest.fixture
def run(tmp_path):
    settings = {**QUICK, "rounds": 1, "plant_backdoor": "c1:size=2"}
    with Federation.create(tmp_path / "run", data=data(), model="mlp", **settings) as federation:
        federation.train()
    return tmp_path / "run"


def opened(run):
    return Federation.open(run, data=data())


def named_in(run):
    return [file.name for file in run.rglob("federation.toml") if b"c1" in file.read_bytes()]


def test_the_setting_goes_with_its_client_and_the_run_opens_again(run):
    assert named_in(run) == ["federation.toml"]
    with opened(run) as federation:
        federation.forget("c1")
        assert federation.settings.plant_backdoor is None
    assert named_in(run) == []
    with opened(run) as federation:
        federation.train(2)


def test_it_stays_when_another_client_goes(run):
    with opened(run) as federation:
        federation.forget("c0")
    assert read_settings(run).plant_backdoor == "c1:label=0,share=0.5,size=2"
    opened(run).close()


def test_no_oracle_without_the_client_names_it(run):
    with opened(run) as federation:
        (recipe,) = oracle_recipes(federation, ["c1"], 1)
        open_recipe(federation, recipe).close()
        assert recipe.folder.is_dir()
    assert named_in(run) == ["federation.toml"]


def test_a_kill_behind_the_commit_leaves_it_to_the_next_opening(run, monkeypatch):
    with opened(run) as federation:
        monkeypatch.setattr(Store, "write_settings", _die)
        with pytest.raises(KeyboardInterrupt):
            federation.forget("c1")
        monkeypatch.undo()
    assert named_in(run) == ["federation.toml"]
    opened(run).close()
    assert named_in(run) == []


def _die(*_):
    raise KeyboardInterrupt
