"""The code and the commands of docs/own-code.md do what it says."""

import re
import shlex
from pathlib import Path

import pytest

from helpers.commands import succeed
from helpers.own_code import working_in, write_module
from pfedul.settings import read_settings

PAGE = (Path(__file__).parents[1] / "docs/own-code.md").read_text()
OWN, _, HUGGING_FACE = PAGE.partition("\n## Models of Hugging Face\n")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_commands(text: str) -> int:
    """Run all commands of a part of the page; how many there are."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "pfedul"
        engine = ("--engine", "inline") if words[0] == "train" else ()
        succeed(*words, *engine)
    return len(lines)


def test_the_commands_of_the_page(tmp_path):
    write_module(tmp_path, "hospitals", "\n".join(blocks(OWN, "python")))
    with working_in(tmp_path):
        assert run_commands(OWN) == 7
    assert (tmp_path / "runs/wards/reports/report.html").is_file()
    assert read_settings(tmp_path / "runs/wards").model == "hospitals:network:hidden=16,deep"


def test_a_model_of_hugging_face(tmp_path):
    pytest.importorskip("transformers")
    write_module(tmp_path, "reviews", "\n".join(blocks(HUGGING_FACE, "python")))
    with working_in(tmp_path):
        assert run_commands(HUGGING_FACE) == 2
