"""The tools of `make audit` (licences, vulnerabilities) and of `make site` (links of pages)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from importlib.metadata import PathDistribution, distributions
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stating(folder: Path, *lines: str) -> PathDistribution:
    """A package with these lines in its metadata."""
    folder.mkdir()
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: x", *lines]))
    return PathDistribution(folder)


def test_every_installed_package_has_an_allowed_licence():
    assert load("licences").refused(distributions()) == []


@pytest.mark.parametrize(
    ("lines", "allowed"),
    [
        (["License-Expression: MIT OR GPL-3.0-only"], True),
        (["License-Expression: MIT AND (GPL-3.0-only OR LGPL-2.1-only)"], False),
        (["Classifier: License :: OSI Approved :: BSD License"], True),
        (["Classifier: License :: OSI Approved :: GNU General Public License (GPL)"], False),
        (["License: MIT"], True),
        (["License: Proprietary"], False),
        (["License:"], False),
        ([], False),
    ],
)
def test_a_licence_is_read_from_any_of_its_places(lines, allowed, tmp_path):
    package = stating(tmp_path / "x.dist-info", *lines)
    assert (load("licences").refused([package]) == []) is allowed


SOUND = {"name": "one", "version": "1", "vulns": []}
VULNERABLE = {
    "name": "two",
    "version": "2",
    "vulns": [{"id": "GHSA-1", "fix_versions": ["2.1"]}],
}
UNKNOWN = {"name": "three", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "code", "words"),
    [
        ([SOUND], 0, "1 locked packages, none with a known vulnerability."),
        ([SOUND, VULNERABLE], 1, "two 2 is vulnerable (GHSA-1); repaired in 2.1."),
        ([SOUND, VULNERABLE, UNKNOWN], 1, "two 2 is vulnerable"),
        ([SOUND, UNKNOWN], 3, "does not know 1 of 2 packages (three first)"),
        (None, 3, "was not reached (ConnectionError); run 'make audit' where it can be."),
    ],
)
def test_an_audit_without_an_answer_is_no_success(packages, code, words, tmp_path):
    """`packages` is what pip-audit, a stub here, writes; None: it ends by an error."""
    stub = tmp_path / "pip-audit"
    answer = json.dumps({"dependencies": packages})
    write = f"Path(sys.argv[-1]).write_text({answer!r})"
    act = write if packages is not None else "raise ConnectionError('no such host')"
    stub.write_text(f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n{act}\n")
    stub.chmod(0o755)
    command = [sys.executable, TOOLS / "vulnerabilities.py", stub]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (code, 0)
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "[a](docs/audit.md#attacks)", "[a](audit.md#attacks)"),
        ("README.md", '<img src="docs/images/removal.png">', '<img src="images/removal.png">'),
        ("docs/security.md", "[a](../SECURITY.md)", "[a](repository/SECURITY.md)"),
        ("docs/audit.md", "[a](../README.md) [b](json.md)", "[a](index.md) [b](json.md)"),
        ("SECURITY.md", "[a](docs/security.md)", "[a](../security.md)"),
        ("docs/audit.md", "the [results](../results) are", "the results are"),
        (
            "docs/audit.md",
            "[a](nothing.md) [b](https://x.org)",
            "[a](nothing.md) [b](https://x.org)",
        ),
    ],
)
def test_links_lead_to_the_same_file_on_the_site(page, link, expected):
    assert load("site_links").relinked(link, page) == expected


def test_the_site_has_the_files_that_pages_link_to():
    sources = load("site_links").sources()
    assert sources["index.md"] == "README.md"
    assert sources["repository/SECURITY.md"] == "SECURITY.md"
    assert sources["repository/results/forgetting/frontier.png"].endswith("frontier.png")
