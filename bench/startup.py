"""What the shell needs before a command begins: CPU time of help, version and TAB.

    python bench/startup.py [--write]

Each in a new process, in turn, the least of five; `python -c 'import click'` = 1. Beside it what
`import torch` takes. `--write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys

from speed import PAGE, machine, write_page

TAB = {
    "_PFEDUL_COMPLETE": "fish_complete",
    "COMP_WORDS": "pfedul forget RUN --method ",
    "COMP_CWORD": "",
}
SHELL = ("-m", "pfedul")
CASES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "import click": (("-c", "import click"), {}),
    "pfedul --version": ((*SHELL, "--version"), {}),
    "pfedul --help": ((*SHELL, "--help"), {}),
    "pfedul train --help": ((*SHELL, "train", "--help"), {}),
    "pfedul forget --help": ((*SHELL, "forget", "--help"), {}),
    "TAB after pfedul forget RUN --method": (SHELL, TAB),
    "import torch": (("-c", "import torch"), {}),
}
REPEATS = 5


def cpu_seconds(words: tuple[str, ...], also: dict[str, str]) -> float:
    """CPU time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | also
    subprocess.run([sys.executable, *words], check=True, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table() -> str:
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(REPEATS):
        for name, (words, also) in CASES.items():
            times[name].append(cpu_seconds(words, also))
    unit = min(times["import click"])
    lines = ["| process | CPU time, import click = 1 |", "|---|---|"]
    lines += [f"| {name} | {min(own) / unit:.1f} |" for name, own in times.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    text = f"Measured on {machine()}\n\n{table()}"
    print(text)
    if chosen.write:
        write_page(PAGE, "startup", text)


if __name__ == "__main__":
    main()
