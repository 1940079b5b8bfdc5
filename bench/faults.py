"""The fault campaigns of tests/faults with every case, not a sample, as a table with counts.

python bench/faults.py               all of them: hours
python bench/faults.py -k lost       those whose names contain a word; as in pytest
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = "faults | "


def rows(lines: Iterable[str]) -> Iterable[str]:
    """A row of the table for each campaign that has ended."""
    for line in lines:
        if line.startswith(MARK):
            yield f"| {line.removeprefix(MARK).strip()} |"


def main() -> int:
    cases, options = ("1000000", []) if len(sys.argv) < 2 else (sys.argv[1], sys.argv[2:])
    command = [sys.executable, "-m", "pytest", str(ROOT / "tests/faults"), "-q", "-s", *options]
    environment = {**os.environ, "PFEDUL_FAULT_CASES": cases, "PYTHONUNBUFFERED": "1"}
    print("| fault | cases | held |\n|---|---:|---:|", flush=True)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as tests:
        for row in rows(tests.stdout or ()):
            print(row, flush=True)
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main())
