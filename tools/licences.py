"""Checks that every installed package has a licence of the list below; `make audit` runs it.

It reads the metadata of the environment that runs it, so it needs no network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions

ALLOWED = {
    *("MIT", "MIT-0", "MIT-CMU", "ISC", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "Zlib", "BSL-1.0"),
    *("Apache-2.0", "Apache-2.0 WITH LLVM-exception", "PSF-2.0", "CC0-1.0", "Unlicense"),
    "MPL-2.0",  # its terms end at its own files, which are used unchanged
}
"""SPDX names of licences under which a package may be a dependency of software under Apache-2.0."""

_SPDX = {
    "MIT License": "MIT",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Public Domain": "Unlicense",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""What packages with older metadata write instead of SPDX names."""


def licence_of(package: Distribution) -> str:
    """The licence that a package states, as an SPDX expression; "unknown" if it states none."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = metadata.get_all("Classifier") or []
    names = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License :: ")]
    texts = [text.splitlines()[0] for text in metadata.get_all("License") or [] if text]
    stated = names or texts or ["unknown"]
    return " AND ".join(_SPDX.get(name, name) for name in stated)


def is_allowed(expression: str) -> bool:
    """Whether the terms of a licence expression can be met with licences of the list.

    >>> is_allowed("MIT AND (GPL-3.0-only OR Apache-2.0)")
    True
    >>> is_allowed("MIT AND GPL-3.0-only"), is_allowed("unknown")
    (False, False)
    """
    required = expression.replace("(", "").replace(")", "").split(" AND ")
    return all(set(choice.split(" OR ")) & ALLOWED for choice in required)


def refused(packages: Iterable[Distribution]) -> list[str]:
    """Packages with a licence that is not on the list, each with that licence."""
    licences = {package.name: licence_of(package) for package in packages}
    return sorted(f"{name}: {text}" for name, text in licences.items() if not is_allowed(text))


def main() -> int:
    packages = list({package.name: package for package in distributions()}.values())
    problems = refused(packages)
    for problem in problems:
        print(f"{problem} is not on the list of licences (tools/licences.py).", file=sys.stderr)
    print(f"Licences of {len(packages)} packages checked, {len(problems)} refused.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
