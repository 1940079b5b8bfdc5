"""Pages in a real browser; pictures of them stay in a folder for people to look at.

The folder is `test-artefacts`, or what PFEDUL_TEST_ARTEFACTS names.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from pfedul import PfedulError
from pfedul.report.browser import browser_flags, find_browser

try:
    BROWSER = find_browser()
except PfedulError:
    BROWSER = ""

needs_browser = pytest.mark.skipif(not BROWSER, reason="there is no browser here")

_LEAST = 500
"""A window of a headless browser is never narrower: pages are shown in a frame."""


def artefact(name: str) -> Path:
    folder = Path(os.environ.get("PFEDUL_TEST_ARTEFACTS", "test-artefacts")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def look(page: Path, name: str, width: int, height: int = 2400, dark: bool = False) -> int:
    """Save a picture of the page at this width; returns how wide what is on it is."""
    frame = page.parent / f"frame-{name}.html"
    frame.write_text(_frame(page.read_text(encoding="utf-8"), width, height), encoding="utf-8")
    flags = [f"--window-size={max(width, _LEAST)},{height}", "--hide-scrollbars"]
    flags += [DARK] if dark else []
    dom = _browse(frame, *flags, "--dump-dom", f"--screenshot={artefact(f'{name}.png')}")
    found = re.search(r"<title>wide: (\d+)</title>", dom)
    assert found is not None, "the page was not shown"
    return int(found[1])


def _frame(page: str, width: int, height: int) -> str:
    return f"""<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<body style="margin:0"><script>
function measured(frame) {{
  document.title = "wide: " + frame.contentDocument.documentElement.scrollWidth;
}}
</script><iframe onload="measured(this)" style="border:0;width:{width}px;height:{height}px"
srcdoc="{html.escape(page)}"></iframe>"""


def _browse(page: Path, *flags: str) -> str:
    own = browser_flags(page.parent / "profile")
    command = [BROWSER, *own, *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


DARK = "--blink-settings=preferredColorScheme=0"


def dump(address: str, milliseconds: int = 3000) -> tuple[str, str]:
    """The page as it is after some time of its own, and what the browser complains of."""
    return _visit(address, "--dump-dom", *_size(1280, 900, milliseconds))


def screenshot(address: str, name: str, *flags: str, size: tuple[int, int]) -> Path:
    """A picture of the page among the artefacts of the tests."""
    file = artefact(name)
    file.unlink(missing_ok=True)
    _visit(address, f"--screenshot={file}", *flags, *_size(*size, milliseconds=1000))
    return file


def _size(width: int, height: int, milliseconds: int) -> tuple[str, str]:
    return f"--window-size={width},{height}", f"--virtual-time-budget={milliseconds}"


def _visit(address: str, *flags: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        own = [*browser_flags(Path(profile)), "--disable-quic", "--enable-logging=stderr"]
        command = [BROWSER, *own, "--hide-scrollbars", *flags, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(complaints)


def pages_of(pdf: Path) -> int:
    """The number of pages of a PDF of this browser, which lists them as they are."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
