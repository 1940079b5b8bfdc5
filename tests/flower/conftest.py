"""A federation of three nodes in one process, and somebody who runs it."""

import pytest


@pytest.fixture
def grid(tmp_path):
    from helpers.flower_grid import OneProcessGrid, load_toy
    from pfedul.flower import client_app

    grid = OneProcessGrid(client_app(load_toy))
    for client in ("c0", "c1", "c2"):
        grid.add(client, tmp_path / "nodes" / client)
    return grid


@pytest.fixture
def operate(tmp_path, grid):
    from helpers.flower_grid import Operator

    return Operator(tmp_path / "run", grid)
