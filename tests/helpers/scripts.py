"""Scripts in processes of their own that need not import torch: pfedul's fork server has."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pfedul.engine.child import environment_for
from pfedul.engine.forking import Surroundings, fork

WORDS = "PFEDUL_TEST_WORDS"


def run_script(*words: str | Path, first: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a file, or `-m` a module, or `-c` some code, with its arguments, to its end.

    It imports what is tested here, wherever that was found; `first` are folders to look in before.
    """
    path = [*first, *sys.path]
    command = [str(word) for word in words]
    environment = {**environment_for(path), WORDS: json.dumps(command)}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        surroundings = Surroundings(environment, path, os.getcwd(), own_output=False)
        files = (output, errors)
        code = fork("helpers.scripts", [file.fileno() for file in files], surroundings).wait()
        texts = [(file.seek(0), file.read().decode())[1] for file in files]
    return subprocess.CompletedProcess(command, code, *texts)


def main() -> None:
    """In the forked process: what `python` does with the words."""
    for standard, descriptor in zip((1, 2), map(int, sys.argv[1:]), strict=True):
        os.dup2(descriptor, standard)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, *rest = json.loads(os.environ.pop(WORDS))
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = [kind, *rest]
        runpy.run_path(kind, run_name="__main__")
