"""The code of docs/extending.md, installed as another package would be, does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs/extending.md").read_text()


def blocks(language: str) -> str:
    return "\n\n".join(re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL))


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
    path = os.pathsep.join([str(folder), *sys.path])

    def run(*words: str) -> dict:
        command = [sys.executable, "-m", "pfedul", *words, "--json"]
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


@pytest.fixture(scope="module")
def trained(shell, tmp_path_factory):
    run = tmp_path_factory.mktemp("extended") / "run"
    choices = ("--data", "blobs", "--model", "linear", "--partition", "halves")
    further = ("--personalization", "fedlast", "--clients", "4", "--rounds", "3", "--workers", "2")
    shell("train", str(run), *choices, *further, "--engine", "processes")
    return run


def test_every_entry_is_listed(shell):
    names = {row["name"] for row in shell("methods")["methods"]}
    assert "fade" in names
    assert "linear" in {row["name"] for row in shell("models")["models"]}
    listed = shell("datasets")
    assert "blobs" in {row["name"] for row in listed["datasets"]}
    assert "halves" in {row["name"] for row in listed["partitions"]}
    rows = shell("personalizations")["personalizations"]
    assert "fedlast" in {row["name"] for row in rows}


def test_own_entries_train_a_run(shell, trained):
    status = shell("status", str(trained))
    assert status["personalization"] == "fedlast"
    samples = [client["train_samples"] for client in status["clients"]]
    assert samples[0] > 2 * samples[1], "the first client has half of all samples and more"


def test_an_own_method_that_asks_clients_is_compared_rehearsed_and_used(shell, trained):
    """In this order: forgetting erases what the others need."""
    compared = shell(
        "compare", str(trained), "--client", "client-01", "--methods", "fade,none", "--oracles", "2"
    )
    failures = {cell["label"]: cell["failure"] for cell in compared["cells"]}
    assert failures["fade"] is None
    audit = shell(
        "rehearse", str(trained), "--client", "client-01", "--method", "fade", "--level", "quick"
    )
    assert "margin" in json.dumps(audit), "the own attack is a part of the evidence"
    outcome = shell("forget", str(trained), "--client", "client-01", "--method", "fade", "--yes")
    assert outcome["rounds"] == 1
    assert outcome["rehearsal"]["holds"], "the rehearsal ended with the same hashes"
