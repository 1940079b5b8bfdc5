"""The commands and the code of the pages docs/how-to-*.md do what they say."""

import re
import shlex
from pathlib import Path

import pytest

from helpers.cells_here import cells_here
from helpers.commands import succeed
from helpers.own_code import working_in

DOCS = Path(__file__).parents[1] / "docs"
TINY = "--samples 300 --clients 4 --partition iid --model mlp:hidden=16 --rounds 2"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_commands(page: str) -> None:
    """All of a page; training is inline, which is quicker for a few samples."""
    for line in "".join(blocks(page, "sh")).splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "pfedul"
        engine = ("--engine", "inline") if words[0] == "train" else ()
        succeed(*words, *engine)


@pytest.fixture
def folder(tmp_path):
    with working_in(tmp_path):
        yield tmp_path


def test_training(folder):
    run_commands("how-to-train.md")
    runs = [folder / "runs" / name / "shared.safetensors" for name in ("digits", "again")]
    assert runs[0].read_bytes() == runs[1].read_bytes()


def test_a_removal(folder):
    succeed("train", "runs/digits", *TINY.split(), "--engine", "inline")
    run_commands("how-to-removal.md")
    assert (folder / "case-17.html").is_file()
    assert not (folder / "runs/digits/clients/client-03").exists()


def test_a_comparison(folder):
    with cells_here():
        run_commands("how-to-paper.md")
    (code,) = blocks("how-to-paper.md", "python")
    exec(compile(code, "how-to-paper.md", "exec"), {})
    page = (folder / "tables/all/comparison.md").read_text()
    assert "compared over 2 trainings" in page
