"""Asks a vulnerability service about all locked packages, with pip-audit; `make audit` runs it.

    python tools/vulnerabilities.py PIP_AUDIT [OPTIONS OF PIP-AUDIT]

Exit code 0: none is known to be vulnerable. 1: some are. 3: not every package was looked up, as the
service was not reached or does not know it; pip-audit itself would call the latter a success.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LOCKS = Path(__file__).parents[1] / "requirements"
OPTIONS = (
    *("--disable-pip", "--progress-spinner", "off", "--vulnerability-service", "osv"),
    *("--requirement", str(LOCKS / "dev.lock"), "--requirement", str(LOCKS / "torch.lock")),
)
VULNERABLE, NOT_AUDITED = 1, 3


def audited(pip_audit: str, options: Sequence[str]) -> list[dict[str, Any]] | str:
    """What the service says of each package, or the error with which pip-audit ended."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [pip_audit, *OPTIONS, *options, "--format", "json", "--output", str(answer)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not answer.exists():
            return (done.stderr.strip().splitlines() or ["no message"])[-1].split(":")[0]
        packages: list[dict[str, Any]] = json.loads(answer.read_text())["dependencies"]
        return packages


def verdict(packages: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """A text for people, and the exit code."""
    vulnerable = [package for package in packages if package.get("vulns")]
    if vulnerable:
        return "\n".join(map(_described, vulnerable)), VULNERABLE
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if unknown:
        which = f"{len(unknown)} of {len(packages)} packages ({unknown[0]} first)"
        return f"Not audited: the vulnerability service does not know {which}.", NOT_AUDITED
    return f"{len(packages)} locked packages, none with a known vulnerability.", 0


def _described(package: dict[str, Any]) -> str:
    which = ", ".join(item["id"] for item in package["vulns"])
    repaired = sorted({version for item in package["vulns"] for version in item["fix_versions"]})
    advice = f"repaired in {', '.join(repaired)}" if repaired else "not repaired yet"
    return f"{package['name']} {package['version']} is vulnerable ({which}); {advice}."


def main(pip_audit: str, *options: str) -> int:
    answer = audited(pip_audit, options)
    if isinstance(answer, str):
        print(
            f"Not audited: the vulnerability service was not reached ({answer}); run 'make audit' "
            "where it can be.",
            file=sys.stderr,
        )
        return NOT_AUDITED
    text, code = verdict(answer)
    print(text, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
