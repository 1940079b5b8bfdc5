"""Reports and comparisons in a real browser: narrow and wide, light and dark, and on paper."""

import json
import os
import re
import stat

import pytest

from helpers import example_material as example
from helpers.browser import artefact, look, needs_browser, pages_of
from helpers.commands import refuse
from helpers.comparison_documents import comparison
from pfedul import PfedulError
from pfedul.compare.page import write_pages
from pfedul.report.browser import BROWSER, find_browser
from pfedul.report.formats import write_material


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "report.html"
    material = example.full(clients=6, layers=3)
    material["evidence"]["removed"] = {"value": 0.89, "interval": [0.59, 1.43]}
    path.with_suffix(".json").write_text(json.dumps(material))
    write_material(material, "html", path)
    return path


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_a_report_needs_no_scrolling_to_the_side(width, dark, page):
    name = f"report-{width}{'-dark' if dark else ''}"
    assert look(page, name, width, dark=dark) <= width


@needs_browser
def test_what_is_behind_folds_does_not_either(page, tmp_path):
    path = tmp_path / "open.html"
    path.write_text(page.read_text().replace("<details>", "<details open>"))
    assert look(path, "report-360-open", 360, height=9000) <= 360


@needs_browser
def test_a_report_is_six_pages_at_most_on_paper(page):
    material = json.loads(page.with_suffix(".json").read_text())
    path = artefact("report.pdf")
    write_material(material, "pdf", path)
    assert path.read_bytes().startswith(b"%PDF-")
    assert 2 <= pages_of(path) <= 6
    assert not list(path.parent.glob("printing-*"))


@needs_browser
@pytest.mark.parametrize("width", [360, 1280])
def test_a_comparison_needs_no_scrolling_to_the_side(width, tmp_path):
    path = write_pages(comparison(), tmp_path)["page"]
    assert look(path, f"comparison-{width}", width) <= width


def test_nothing_is_asked_for_from_elsewhere(page):
    text = page.read_text()
    assert not re.findall(r"(?:src|href|srcset|action)=[\"']?https?:", text)
    assert not re.findall(r"url\((?!#)", text)


def test_without_a_browser_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(BROWSER, raising=False)
    with pytest.raises(PfedulError, match=r"no browser here .* print it"):
        find_browser()
    monkeypatch.setenv(BROWSER, "no-such-browser")
    with pytest.raises(PfedulError, match="names 'no-such-browser', which is not a program"):
        write_material(example.untrained(), "pdf", tmp_path / "page.pdf")
    assert list(tmp_path.iterdir()) == []


def test_a_browser_that_fails_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(BROWSER, str(broken))
    monkeypatch.setenv("PATH", os.defpath)
    with pytest.raises(PfedulError, match="broken printed no PDF: it is broken"):
        write_material(example.untrained(), "pdf", tmp_path / "page.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_what_is_no_run_is_said_first(tmp_path, monkeypatch):
    monkeypatch.setenv(BROWSER, "no-such-browser")
    assert "not a pfedul run folder" in refuse("report", tmp_path, "--format", "pdf")
