"""The code of docs/extending.md, installed as another package would be, does what it says."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from helpers.scripts import run_script

PAGE = (Path(__file__).parents[1] / "docs/extending.md").read_text()


def blocks(language: str) -> str:
    return "\n\n".join(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL))


COMMANDS = """
import contextlib, io, json, sys
from helpers.scripts import run_script
from pfedul.cli import main
results = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main([*words, "--json"], standalone_mode=False)
    results.append(json.loads(printed.getvalue()))
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """`pfedul` with the page's package installed; results as JSON."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "my_methods-1.0.dist-info"
    info.mkdir()
    (folder / "my_methods.py").write_text(blocks("python"))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 1.0\n")
    groups = tomllib.loads(blocks("toml"))["project"]["entry-points"]
    lines = [
        f"[{group}]\n{name} = {place}" for group, of in groups.items() for name, place in of.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))

    def run(*commands: list[str]) -> list[dict]:
        done = run_script("-c", COMMANDS, json.dumps(commands), first=[str(folder)])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def trained(shell, tmp_path_factory):
    """A run with own data, model, partition and personalisation; its status."""
    run = str(tmp_path_factory.mktemp("extended") / "run")
    choices = ("--data", "blobs", "--model", "linear", "--partition", "halves")
    further = ("--personalization", "fedlast", "--clients", "4", "--rounds", "3")
    engine = ("--engine", "processes", "--workers", "1")
    return run, shell(["train", run, *choices, *further, *engine], ["status", run])[1]


def test_every_entry_is_listed(shell):
    lists = ("methods", "models", "personalizations")
    *listed, data = shell(*([name] for name in lists), ["datasets"])
    names = [{row["name"] for row in part[name]} for part, name in zip(listed, lists, strict=True)]
    assert "fade" in names[0]
    assert "linear" in names[1]
    assert "fedlast" in names[2]
    assert "blobs" in {row["name"] for row in data["datasets"]}
    assert "halves" in {row["name"] for row in data["partitions"]}


def test_own_entries_train_a_run(trained):
    _, status = trained
    assert status["personalization"] == "fedlast"
    samples = [client["train_samples"] for client in status["clients"]]
    assert samples[0] > 2 * samples[1], "the first client has half of all samples and more"


def test_an_own_method_that_asks_clients_is_compared_rehearsed_and_used(shell, trained):
    """In this order: forgetting erases what the others need."""
    of = (trained[0], "--client", "client-01")
    compared, audit, outcome = shell(
        ["compare", *of, "--methods", "fade,none", "--oracles", "2"],
        ["rehearse", *of, "--method", "fade", "--level", "quick"],
        ["forget", *of, "--method", "fade", "--yes"],
    )
    failures = {cell["label"]: cell["failure"] for cell in compared["cells"]}
    assert failures["fade"] is None
    assert "margin" in json.dumps(audit), "the own attack is a part of the evidence"
    assert outcome["rounds"] == 1
    assert outcome["rehearsal"]["holds"], "the rehearsal ended with the same hashes"


def test_an_own_experiment_is_reproduced(shell, tmp_path):
    """Its federation, its methods, its columns and its claim."""
    command = ["reproduce", "fading", "--scale", "toy", "--seeds", "1", "--into", str(tmp_path)]
    (documents,) = shell(command)
    (group,) = documents[0]["groups"]
    assert group["trainings"] == 1
    assert group["cells"]["Fade"]["pps"]["mean"] is not None
    assert documents[0]["claims"][0]["measured"] is not None
    assert (tmp_path / "fading.png").is_file()
