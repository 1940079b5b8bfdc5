"""The code of docs/tasks.md works as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

from pfedul.tasks import TASKS, task_of

PAGE = (Path(__file__).parents[2] / "docs/tasks.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_own_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[0], {"__name__": "page"})
    accuracy, sentence = capsys.readouterr().out.splitlines()
    assert 0 < float(accuracy) <= 1
    assert "town-2" in sentence


def test_an_own_task(monkeypatch):
    from pfedul.base import registry

    monkeypatch.setattr(registry, "_REGISTERED", {})
    exec(BLOCKS[1], {"__name__": "page"})
    assert task_of("robust").name == "robust"


def test_every_task_has_a_row():
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE, flags=re.MULTILINE)
    assert rows == [kind.name for kind in TASKS]
