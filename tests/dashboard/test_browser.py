"""The dashboard in a real browser: live, without complaints, on narrow and wide screens."""

import re
import shutil
from pathlib import Path

import pytest
from matplotlib.image import imread

from helpers.browser import DARK, dump, needs_browser, screenshot
from helpers.dashboards import ask, run_folders, served
from pfedul.dashboard.routes import Answer, Dashboard

pytestmark = needs_browser

NARROW = 360

MEASURE = """
function tell() {
  const told = new XMLHttpRequest();
  const widths = `${innerWidth}/${document.documentElement.scrollWidth}`;
  told.open("GET", `${document.body.dataset.live}/measured/${widths}`, false);
  told.send();
}
addEventListener("resize", tell);
tell();
"""
"""For a picture the browser makes its window narrower than it can be otherwise, at the end."""


class Watched(Dashboard):
    """The script tells it how wide the window and the page are."""

    def __init__(self, places, at_first_live=lambda: None) -> None:
        """`at_first_live` is called when live parts are asked for, before they are made."""
        super().__init__(places)
        self.widths: list[tuple[str, ...]] = []
        self.asked, self._at_first_live = 0, at_first_live

    def answer(self, way: str, base: str) -> Answer:
        if way.endswith("live"):
            self.asked += 1
            if self.asked == 1:
                self._at_first_live()
        _, measured, widths = way.partition("live/measured/")
        if measured:
            self.widths.append(tuple(widths.split("/")))
            return Answer("text/plain", "")
        answer = super().answer(way, base)
        return answer._replace(text=answer.text + MEASURE) if way == "live.js" else answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_folders(tmp_path_factory.mktemp("browser"))


@pytest.mark.parametrize("way", ["", "runs/1"])
def test_a_page_follows_its_run(folder, tmp_path, way):
    run = Path(shutil.copytree(folder / "alpha", tmp_path / "run"))
    with served(Watched([run], lambda: ask(run, "c3"))) as server:
        page, complaints = dump(f"{server.address}{way}", milliseconds=5000)
    assert server.dashboard.asked > 1
    assert re.search("overdue by [0-9,]+ days", page)
    assert complaints == ""


def test_a_report_is_shown_as_it_is_in_a_file(folder):
    with served(Dashboard([folder])) as server:
        page, complaints = dump(f"{server.address}runs/2/report")
    assert "Was c1 forgotten?" in page
    assert complaints == ""


PICTURES = {
    "dark": ("", (1280, 900), (DARK,)),
    "run": ("runs/2", (1280, 1700), ()),
    "narrow": ("", (NARROW, 1900), ()),
    "run-narrow": ("runs/2", (NARROW, 2600), ()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_page_is_wider_than_its_window(folder, name):
    """The pictures are kept, to be looked at."""
    way, size, flags = PICTURES[name]
    with served(Watched([folder])) as server:
        file = screenshot(f"{server.address}{way}", f"dashboard-{name}.png", *flags, size=size)
    assert server.dashboard.widths[-1:] == [(str(size[0]), str(size[0]))]
    image = imread(file)
    assert image.shape[:2] == size[::-1]
    assert image[..., :3].std() > 0.01, "an empty page"
