"""A page as a PDF, printed by a browser of this machine that needs no screen."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError

BROWSER = "PFEDUL_BROWSER"
"""The environment variable that names the browser to print with."""

_KNOWN = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "msedge",
)
_FLAGS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
_SECONDS = 120
"""Longer than any page takes."""


def find_browser() -> str:
    """The one that is named by the environment, or else the first on PATH."""
    named = os.environ.get(BROWSER)
    if named:
        found = shutil.which(named)
        if found is None:
            raise PfedulError(f"{BROWSER} names '{named}', which is not a program here.")
        return found
    for name in _KNOWN:
        if found := shutil.which(name):
            return found
    raise PfedulError(
        "There is no browser here to print a PDF with; install chromium, or name a browser with "
        f"{BROWSER}=PATH, or open the page of --format html in your own browser and print it."
    )


def print_pdf(html: str, path: Path) -> None:
    """Print a page that loads nothing into the file `path`.

    All that is temporary is in a new folder beside it: a browser in a package of its own may not
    see /tmp, and what is in a run's folder is erased with the run's pages.
    """
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="printing-", dir=path.parent) as name:
        folder = Path(name).resolve()
        page, printed = folder / "page.html", folder / "page.pdf"
        page.write_text(html, encoding="utf-8", newline="\n")
        flags = *browser_flags(folder / "profile"), "--no-pdf-header-footer"
        said = _run([browser, *flags, f"--print-to-pdf={printed}", page.as_uri()], folder / "log")
        if not printed.is_file():
            raise PfedulError(f"{browser} printed no PDF: {said}")
        printed.replace(path)


def browser_flags(profile: Path) -> list[str]:
    """With a profile of its own; root may not use the browser's sandbox."""
    as_root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return [*_FLAGS, *as_root, f"--user-data-dir={profile}"]


def _run(command: list[str], log: Path) -> str:
    """Returns the last line of what the browser said."""
    try:
        with log.open("wb") as file:  # no pipe, which a browser's children could keep open
            streams: dict[str, Any] = {"stdout": file, "stderr": file}
            subprocess.run(command, **streams, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise PfedulError(f"{command[0]} did not print the page in {_SECONDS} seconds.") from None
    except OSError as error:
        raise PfedulError(f"{command[0]} cannot be started: {error.strerror}.") from None
    return (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
