"""docs/tutorial.md works from its first command to its last, and prints what the page quotes."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from helpers.commands import call

PAGE = (Path(__file__).parents[1] / "docs/tutorial.md").read_text()
INSTALLATION, *BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_is_executed_and_prints_what_it_quotes(tmp_path, monkeypatch):
    """In an empty folder. Numbers are not compared: their last digits may differ elsewhere."""
    monkeypatch.chdir(tmp_path)
    printed = ""
    for kind, block in BLOCKS:
        if kind == "text":
            for line in block.splitlines():
                assert without_numbers(line) in without_numbers(printed), line
        else:
            printed = {"sh": shell, "python": python}[kind](block)
    assert (tmp_path / "runs/digits/reports/report.html").is_file()
    assert (tmp_path / "removal.json").is_file()


def shell(block: str) -> str:
    """What the commands print, all of them pfedul's."""
    return "\n".join(map(command, block.replace("\\\n", " ").splitlines()))


def command(line: str) -> str:
    program, *words = shlex.split(line, comments=True)
    assert program == "pfedul"
    expected = re.search(r"# exits with (\d)", line)
    result = call(*words)
    assert result.exit_code == int(expected[1] if expected else 0), result.output
    return result.stdout


def python(block: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block, "tutorial.md", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def without_numbers(text: str) -> str:
    """Numbers become N, and white space one space."""
    return " ".join(re.sub(r"-?\d[\d.,]*", "N", text).split())


def test_the_first_block_installs_pfedul():
    """The one block that is not executed: these tests run where that was done."""
    kind, block = INSTALLATION
    assert kind == "sh"
    assert block.splitlines()[-1] == "pip install ."
    assert "pfedul " not in block


def test_the_page_trains_looks_rehearses_forgets_reports_and_certifies():
    commands = re.findall(r"^pfedul (\w+)", PAGE, re.MULTILINE)
    order = ["train", "status", "inspect", "rehearse", "forget", "report", "certificate", "verify"]
    assert [*dict.fromkeys(name for name in commands if name in order)] == order
