"""Pages in a real browser: Chromium without a window, where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--enable-logging=stderr"),
)
DARK = "--blink-settings=preferredColorScheme=0"


def dump(address: str, *flags: str, width: int = 1280, milliseconds: int = 3000) -> tuple[str, str]:
    """The page as it is after some time of its own, and what the browser complains of."""
    return _browse(address, "--dump-dom", *flags, *_size(width, 900, milliseconds))


def screenshot(address: str, name: str, *flags: str, size: tuple[int, int]) -> Path:
    """A picture of the page among the artefacts of the tests."""
    file = artefacts() / name
    file.unlink(missing_ok=True)
    _browse(address, f"--screenshot={file}", *flags, *_size(*size, milliseconds=1000))
    return file


def artefacts() -> Path:
    """Where pictures are kept: `PFEDUL_ARTEFACTS`, or a folder that git ignores."""
    usual = Path(__file__).parents[2] / "test-artefacts"
    folder = Path(os.environ.get("PFEDUL_ARTEFACTS") or usual).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _size(width: int, height: int, milliseconds: int) -> tuple[str, str]:
    return f"--window-size={width},{height}", f"--virtual-time-budget={milliseconds}"


def _browse(address: str, *flags: str) -> tuple[str, str]:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [CHROMIUM, *_FLAGS, *flags, f"--user-data-dir={profile}", address]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(complaints)
