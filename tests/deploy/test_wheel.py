"""The wheel, installed where nothing else of this repository is, trains, forgets and reports.

Torch and the other requirements are those of the environment of the tests: nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from pfedul.version import __version__

ROOT = Path(__file__).parents[2]
TINY = "--samples 300 --clients 3 --rounds 1 --model mlp:hidden=16 --partition iid --engine inline"


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; it sees neither the sources nor settings of the tests."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built as `make dist` does, by way of the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    build = ("build", "--quiet", "--offline", "--no-build-isolation", "--python", sys.executable)
    run(find_uv_bin(), *build, "--out-dir", folder)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of programs of an environment that has the wheel, and the tests' requirements."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    purelib = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
    Path(purelib, "requirements.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "bin/python"
    run(find_uv_bin(), "pip", "install", "--offline", "--no-deps", "--python", python, wheel)
    return folder / "bin"


def test_the_wheel_has_every_file_of_the_package(wheel):
    listed = run("git", "ls-files", "src").splitlines()
    assert "src/pfedul/py.typed" in listed
    packed = zipfile.ZipFile(wheel).namelist()
    assert {name.removeprefix("src/") for name in listed} <= set(packed)


def test_an_installed_wheel_trains_forgets_and_reports(installed, tmp_path):
    pfedul = installed / "pfedul"
    assert __version__ in run(pfedul, "--version", cwd=tmp_path)
    where = run(installed / "python", "-c", "import pfedul; print(pfedul.__file__)", cwd=tmp_path)
    assert Path(where).is_relative_to(installed.parent)
    run(pfedul, "--key", tmp_path / "key", "key", cwd=tmp_path)
    for command in (f"train run {TINY}", "forget run --client client-01 --yes", "report run"):
        run(pfedul, "--key", tmp_path / "key", *command.split(), cwd=tmp_path)
    assert (tmp_path / "run/reports/report.html").is_file()
    assert "table7" in run(pfedul, "reproduce", "list", cwd=tmp_path)
