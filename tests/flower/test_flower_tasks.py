"""Another task than classification with clients that are nodes."""

import pytest

pytest.importorskip("flwr")

from torch.nn.functional import one_hot

from helpers.flower_grid import OneProcessGrid, Operator
from helpers.toys import WithNorm, client_data, create
from pfedul.base.hashes import digest_file
from pfedul.flower import client_app

SETTINGS = {"task": "multi-label", "rounds": 1}


def data():
    return {
        client: tuple((x, one_hot(y, 3)) for x, y in parts)
        for client, parts in client_data().items()
    }


def load(node):
    return WithNorm(), *data()[node.client]


def test_nodes_learn_the_same_as_clients_here(tmp_path):
    grid = OneProcessGrid(client_app(load))
    for client in data():
        grid.add(client, tmp_path / "nodes" / client)
    operate = Operator(tmp_path / "run", grid)
    operate("train", **SETTINGS)
    with create(tmp_path / "local", data=data(), **SETTINGS) as federation:
        federation.train()
        wanted = federation.forget("c1").as_json()
    assert operate("forget", client="c1")["after"] == wanted["after"]
    shared = [tmp_path / place / "shared.safetensors" for place in ("run", "local")]
    assert digest_file(shared[0]) == digest_file(shared[1])
