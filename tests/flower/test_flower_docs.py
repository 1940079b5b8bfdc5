"""The app of docs/flower.md, taken from the page and run."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict

from helpers.flower_grid import OneProcessGrid
from pfedul.flower.app_config import read_config
from pfedul.status import read_status

PAGE = (Path(__file__).parents[2] / "docs/flower.md").read_text()


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def digits(folder, clients):
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    folder.mkdir()
    for index, client in enumerate(clients):
        train, test = slice(index * 90, index * 90 + 60), slice(index * 90 + 60, index * 90 + 90)
        parts = {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}
        np.savez(folder / f"{client}.npz", **parts)


def test_the_app_is_at_most_thirty_lines():
    assert len(block("python").splitlines()) <= 30


def test_the_app_trains_and_forgets(tmp_path):
    app = {"__name__": "hospital.app"}
    exec(compile(block("python"), "flower.md", "exec"), app)
    config = tomllib.loads(block("toml"))["tool"]["flwr"]["app"]["config"]
    clients = ["ward-1", "ward-2", "ward-3"]
    digits(tmp_path / "data", clients)
    grid = OneProcessGrid(app["client"])
    for client in clients:
        grid.add(client, tmp_path / client, **{"data-root": str(tmp_path / "data")})

    def flwr_run(**given):
        merged = {**config, "run": str(tmp_path / "run"), **given}
        read_config(merged)
        app["server"](grid, Context(1, 1, {}, RecordDict(), merged))

    flwr_run(rounds=3)
    flwr_run(action="forget", client="ward-3", by="case 17", ground="it asked")
    status = read_status(tmp_path / "run")
    assert [row["client"] for row in status["clients"]] == ["ward-1", "ward-2"]
    assert status["personalization"].startswith("fedrep")
    assert status["requests"][0]["erased_at_client"]["ward-3"].startswith("confirmed")
    assert [row["result"] for row in status["actions"]] == ["done", "done"]
