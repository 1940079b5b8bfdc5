"""What Flower keeps of what is logged: its database is beyond the reach of a removal."""

import json
import logging
import re
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("flwr")

from pfedul.flower.deployment.down import scrub
from pfedul.flower.server import one_sentence
from pfedul.protocol import Refusal
from pfedul.server.round import TooFewReplies


def test_no_figure_of_a_client_is_logged(operate, tmp_path):
    for action, config in (
        ("train", {}),
        ("evaluate", {}),
        ("inspect", {"client": "c1"}),
        ("forget", {"client": "c1"}),
        ("status", {}),
    ):
        operate(action, **config)
    log = "\n".join(operate.told).replace(str(tmp_path), "")
    assert "round 2/2: 3 of 3 replies" in log
    assert not re.search(r"\d+\.\d+|loss|accuracy|samples", log)


def test_the_result_of_an_action_is_a_file_that_a_removal_erases(operate, tmp_path):
    operate("train")
    result = operate("evaluate")
    place = tmp_path / "run/reports/evaluate.json"
    assert json.loads(place.read_text()) == result
    assert place.stat().st_mode & 0o777 == 0o600
    operate("forget", client="c1")
    assert [file.name for file in place.parent.iterdir()] == ["forget.json"]


def test_a_round_that_fails_is_logged_without_what_clients_said():
    error = TooFewReplies(3, 3, [Refusal("c1", "moved by 7.25")], 2)
    record = logging.LogRecord("flwr", logging.ERROR, "", 0, "", (), (None, error, None))
    assert one_sentence(record)
    assert record.getMessage() == "Round 3 was not committed: too few usable replies."


def test_a_removal_clears_the_logs_in_the_database_of_flower(tmp_path):
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE task_logs (timestamp REAL, task_id INTEGER, log TEXT)")
        database.execute("INSERT INTO task_logs VALUES (1, 1, 'c1 has 386 samples')")
    assert scrub(path)
    assert b"386 samples" in path.read_bytes()
    assert scrub(path, logs=True)
    assert b"386 samples" not in path.read_bytes()
