"""The code and the commands of docs/own-code.md do what it says."""

import re
import shlex
from pathlib import Path

from helpers.commands import succeed
from helpers.own_code import working_in, write_module
from pfedul.settings import read_settings

PAGE = (Path(__file__).parents[1] / "docs/own-code.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_of_the_page(tmp_path):
    write_module(tmp_path, "hospitals", "\n".join(blocks("python")))
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 7
    with working_in(tmp_path):
        for line in lines:
            program, *words = shlex.split(line)
            assert program == "pfedul"
            engine = ("--engine", "inline") if words[0] == "train" else ()
            succeed(*words, *engine)
    assert (tmp_path / "runs/wards/reports/report.html").is_file()
    assert read_settings(tmp_path / "runs/wards").model == "hospitals:network:hidden=16,deep"
