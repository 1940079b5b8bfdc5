"""Progress of training where there is no terminal: lines in a log."""

from __future__ import annotations

import pytest

from pfedul.callbacks import Bar, Progress
from pfedul.run.callbacks import told
from pfedul.terminal import console


@pytest.fixture
def lines(monkeypatch, capsys):
    """The lines of these reports, as many as there are."""
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)

    def printed(*reports: Progress) -> list[str]:
        with told([Bar()]) as bar:
            for report in reports:
                (bar.on_reply if report.loss is None else bar.on_round)(report)
        return capsys.readouterr().err.splitlines()

    return printed


def test_a_line_has_the_figures_of_the_round_that_it_names(lines):
    assert lines(
        Progress(1, 2, 1, 2),
        Progress(1, 2, 2, 2),
        Progress(1, 2, 2, 2, loss=1.159, accuracy=0.5),
        Progress(2, 2, 1, 2),
        Progress(2, 2, 2, 2, loss=0.75),
    ) == [
        "round 1/2  1 of 2 replies",
        "round 1/2  2 of 2 replies",
        "round 1/2  loss 1.159  accuracy 50.0%",
        "round 2/2  1 of 2 replies",
        "round 2/2  loss 0.750",
    ]


def test_the_last_round_is_always_there(lines, monkeypatch):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 1000.0)
    reports = (Progress(1, 2, 2, 2, loss=1.0), Progress(2, 2, 2, 2, loss=0.5, accuracy=0.9))
    assert lines(*reports) == ["round 2/2  loss 0.500  accuracy 90.0%"]
