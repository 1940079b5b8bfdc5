"""Where Linux's own modules and calls are missing, pfedul can be imported and runs inline."""

import os
import subprocess
import sys

SCRIPT = """
import os, pkgutil, importlib, sys
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "resource", "termios", "pwd", "grp"} and not torch_is_loading:
            raise ModuleNotFoundError(name)

torch_is_loading = True
import torch, sklearn.datasets, scipy.stats, filelock, psutil  # they know these systems themselves
torch_is_loading = False
sys.meta_path.insert(0, Blocked())
for name in ("fcntl", "resource", "termios"):
    sys.modules.pop(name, None)
for name in ("memfd_create", "sched_getaffinity", "fork", "pidfd_open", "fchmod"):
    if hasattr(os, name):
        delattr(os, name)

import pfedul
skipped = ("pfedul.flower", "pfedul.engine.flower.", "pfedul.__main__")  # an extra, for POSIX
for module in pkgutil.walk_packages(pfedul.__path__, "pfedul."):
    if not module.name.startswith(skipped) and "compiled" not in module.name:
        importlib.import_module(module.name)

from helpers.toys import create
from pfedul.engine.inline import InlineEngine
run = Path(sys.argv[1])
with create(run, rounds=1, engine="auto", workers=2) as federation:
    federation.train()
    assert isinstance(federation.engine, InlineEngine), federation.engine
    federation.forget("c1")
"""


def test_it_imports_and_runs_inline_without_what_only_linux_has(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/shared.safetensors").is_file()


def test_folders_are_not_synced_on_windows(tmp_path, monkeypatch):
    from pfedul.store import folder

    def refuse(*_):
        raise PermissionError("Windows opens no folder")

    monkeypatch.setattr(folder, "_WINDOWS", True)
    monkeypatch.setattr(folder.os, "open", refuse)
    folder.sync(tmp_path)
