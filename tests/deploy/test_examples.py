"""The scripts and notebooks of examples/ run, and show what they are there to show."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import notebooks
from helpers.notebooks import code_of, read_notebook
from helpers.scripts import run_script

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
WITHOUT_SYNCS = "import os; os.fsync = lambda _descriptor: None; "
"""As in this process (conftest.py): here, too, only a power cut would lose anything."""
SCRIPT = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
PFEDUL = "import sys; sys.argv[0] = 'pfedul'; from pfedul.cli import main; main()"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """A copy of the folder, to work in."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def printed(file: Path | str, *words: str) -> str:
    """What a script, or a notebook, prints in the folder of the examples."""
    done = run_script("-c", WITHOUT_SYNCS + SCRIPT, file, *words, first=[os.getcwd()])
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(name: str) -> str:
    return printed(notebooks.__file__, name)


def test_a_removal_is_rehearsed_done_and_lasts():
    text = printed("removal_request.py")
    paper, default = re.findall(r"^rehearsal with (.*)$", text, re.MULTILINE)[:2]
    assert paper == "{'correction': 'paper'}: not forgotten"
    assert default.startswith("the defaults: ")
    assert "done   Outcome(request=1, targets=['north'], verdict='forgotten'" in text
    assert "again  nothing more to do" in text
    assert re.search(r"after  Evaluation\(round=14, .*clients=3\)", text)


def test_the_same_removal_in_a_shell(here, tmp_path):
    program = tmp_path / "bin/pfedul"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{WITHOUT_SYNCS}{PFEDUL}" "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = ["sh", str(here / "removal_request.sh")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--require asks for 'forgotten'" in done.stderr, "the published correction is refused"
    assert "Removed north (request 1): forgotten." in done.stdout
    assert (here / "runs/removal-request-sh/certificates/request-1.json").is_file()


def test_one_removal_is_to_be_signed_and_another_is_not(here):
    text = printed("evidence_to_sign.py")
    first, second, forged = text.strip().split("\n\n")
    assert re.search(r"\nso +sign runs/files-to-sign/case-17$", first)
    assert re.search(r"\nso +do not sign runs/files-to-sign/case-18$", second)
    assert "needed" in second, "the officer is told what to ask for"
    assert "do not sign: certificate.json: It is not a whole certificate" in forged
    assert (here / "runs/files-to-sign/case-17/report.html").is_file()


def test_an_own_method_is_compared():
    text = printed("compare_methods.py")
    methods = ["pfedul", "pfedul:correction=paper", "rewind:share=0.8"]
    labels = ["untouched", "oracle 1", "oracle 2", *methods]
    assert re.findall(r"^(\S.*?) +excess AUC", text, re.MULTILINE) == labels
    assert "round 12  loss " in text
    assert Path(re.search(r"^picture +(.*)$", text, re.MULTILINE)[1]).is_file()


def test_the_notebook_of_a_removal(here):
    text = shown("removal_request.ipynb")
    assert "<strong>Plan</strong>" in text
    assert text.index("<dd>not forgotten</dd>") < text.index("<strong>Outcome</strong>")
    assert "\nTrue\n" in text, "asking again gives the same outcome"
    assert (here / "runs/removal-request-notebook/reports/report.html").is_file()


def test_the_notebook_of_the_evidence():
    text = shown("evidence_to_sign.ipynb")
    assert "'verdict': 'not enough evidence'" in text
    assert "('forgotten', [(False, 'certificate.json: It is not a whole certificate" in text


def test_the_notebook_of_the_comparison():
    text = shown("compare_methods.ipynb")
    assert "<strong>History</strong>" in text
    assert "<td>rewind:share=0.8</td>" in text
    assert "failed" not in text


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_a_notebook_is_well_formed_and_has_no_outputs(file):
    """The rules of the format, 4.5."""
    notebook = read_notebook(file)
    assert {*notebook} == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in notebook["cells"]]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    for cell in notebook["cells"]:
        code = {"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else {}
        assert cell.items() >= {"metadata": {}, **code}.items()
        assert {*cell} == {"cell_type", "id", "metadata", "source", *code}
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert not cell["source"][-1].endswith("\n")
    assert not any(re.search(r"^[%!]", code, re.MULTILINE) for code in code_of(notebook))


def test_a_notebook_is_written_as_jupyter_writes_it():
    for file in NOTEBOOKS:
        text = json.dumps(read_notebook(file), indent=1, ensure_ascii=False) + "\n"
        assert file.read_text(encoding="utf-8") == text


def test_the_list_of_examples_is_whole():
    page = (EXAMPLES / "README.md").read_text()
    files = {file.name for file in EXAMPLES.iterdir() if file.suffix in {".py", ".sh", ".ipynb"}}
    assert files == {link for link in re.findall(r"\]\(([^)/]+)\)", page) if "." in link}
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (EXAMPLES / link).exists(), link
