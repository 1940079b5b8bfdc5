"""What TAB offers: commands, options, names of choices, clients of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from helpers.commands import refuse, succeed
from pfedul.cli import main

FAST = "--clients 3 --samples 60 --local-epochs 1 --model mlp:hidden=8 --engine inline --rounds 1"
PLAIN = "--partition iid --min-samples 2"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("completion") / "run"
    succeed("train", folder, *FAST.split(), *PLAIN.split())
    succeed("forget", folder, "--client", "client-02", "--no-audit", "--repair-rounds", "0")
    return folder


def offered(*words: str | Path) -> list[str]:
    """What TAB offers for the last word, in this process."""
    *before, last = map(str, words)
    shell = ShellComplete(main, {}, "pfedul", "_PFEDUL_COMPLETE")
    return [item.value for item in shell.get_completions(before, last)]


def test_names_of_choices():
    assert offered("train", "new", "--personalization", "fed")[:2] == ["fedavg", "fedper"]
    assert offered("train", "new", "--personalization", "FEDR") == ["fedrep"]
    assert offered("train", "new", "--model", "") == ["resnet18", "cnn", "mlp", "transformer"]
    assert offered("train", "new", "--task", "re") == ["regression"]
    assert "cifar10" in offered("train", "new", "--data", "c")
    assert offered("train", "new", "--partition", "dir") == ["dirichlet"]
    assert offered("train", "new", "--optimizer", "a") == ["adam", "adamw"]
    assert "fedosd" in offered("forget", "run", "--method", "fed")
    assert offered("forget", "run", "--correction", "r") == ["reset"]
    assert offered("compare", "run", "--methods", "none,pg") == ["none,pga"]
    assert offered("reproduce", "table7") == ["table7"]


def test_clients_of_the_run(run):
    assert offered("forget", run, "--client", "") == ["client-00", "client-01"]
    assert offered("rehearse", run, "--away", "client-01") == ["client-01"]
    assert offered("export", run, "--client", "client-01") == ["client-01"]
    assert offered("admit", run, "--client", "") == ["client-02"]


def test_no_clients_where_there_is_no_run_that_can_be_read(tmp_path):
    assert offered("forget", tmp_path, "--client", "") == []
    (tmp_path / "ledger.db").write_text("not a ledger")
    assert offered("forget", tmp_path, "--client", "") == []


def test_options_and_commands():
    assert offered("forg") == ["forget"]
    assert "--require" in offered("forget", "run", "--re")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_a_shell(shell):
    script = succeed("completion", shell)
    assert "_PFEDUL_COMPLETE" in script
    assert json.loads(succeed("completion", shell, "--json"))["script"].strip() == script.strip()


def test_a_shell_that_is_not_known():
    assert "'csh' is not one of" in refuse("completion", "csh")


def test_tab_needs_no_torch(run):
    code = (
        "import atexit, sys; "
        "atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); "
        "from pfedul.cli import main; main(prog_name='pfedul')"
    )
    words = f"pfedul forget {run} --method pfedul --client "
    asked = {"_PFEDUL_COMPLETE": "fish_complete", "COMP_WORDS": words, "COMP_CWORD": ""}
    environment = os.environ | asked | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.split() == ["plain,client-00", "plain,client-01"]
    assert done.stderr.strip() == "False"
