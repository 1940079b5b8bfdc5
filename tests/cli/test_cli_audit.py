"""The commands around evidence: rehearse, audit, report."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from helpers.auditing import few_draws
from helpers.commands import call, refuse, succeed
from helpers.drawings import drawn_once
from helpers.forgetting_kill import copied
from helpers.told import AtStage
from helpers.toys import tensor_digests
from pfedul import Federation

FAST = (
    "--clients 4 --samples 240 --local-epochs 1 --model mlp:hidden=16,depth=2 --engine inline "
    "--partition iid --rounds 2"
)
FORMATS = {
    "html": "report.html",
    "md": "report.md",
    "json": "report.json",
}


def parsed(text: str):
    def refuse_constant(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse_constant)


@pytest.fixture(autouse=True, scope="module")
def _drawn_once():
    with drawn_once():
        yield


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    succeed("train", folder, *FAST.split())
    return folder


@pytest.fixture(scope="module")
def ids(start) -> list[str]:
    return [row["client"] for row in parsed(succeed("status", start, "--json"))["clients"]]


@pytest.fixture(scope="module")
def rehearsed(start, ids, tmp_path_factory):
    """A run with a rehearsal, and what the command said of it."""
    run = copied(start, tmp_path_factory.mktemp("rehearsed") / "run")
    with few_draws():
        result = call("rehearse", run, "--client", ids[0], "--oracles", "2")
    assert result.exit_code == 0, result.output
    return run, result


@pytest.fixture(scope="module")
def forgotten(rehearsed, ids, tmp_path_factory):
    """A run in which the rehearsed removal was done."""
    run = copied(rehearsed[0], tmp_path_factory.mktemp("forgotten") / "run")
    succeed("forget", run, "--client", ids[0], "--yes")
    return run


def everything(folder: Path) -> tuple:
    with closing(sqlite3.connect(folder / "ledger.db")) as database:
        audits = database.execute("SELECT COUNT(*) FROM audits").fetchone()
        requests = database.execute("SELECT * FROM requests").fetchall()
    return tensor_digests(folder), audits, requests


def test_rehearse_says_the_price_the_verdict_its_limits_and_what_comes_next(rehearsed, ids):
    run, result = rehearsed
    assert "To be trained: 2 oracles" in result.stderr
    assert "of CPU time" in " ".join(result.stderr.split())
    assert "oracles ..." in result.stderr
    text = " ".join(result.stdout.split())
    assert "Verdict: " in text
    assert "Limit: This is evidence about these attacks" in text
    assert "held-out oracle 1" in text
    assert f"Next: pfedul rehearse {run} --client {ids[0]} --level standard" in text.replace(
        "- ", "-"
    )
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == [
        *("clients", "oracles", "records")
    ]


def test_rehearse_as_json_prints_nothing_else_and_finds_the_oracles_there(rehearsed, ids, tmp_path):
    run = copied(rehearsed[0], tmp_path / "run")
    with few_draws():
        result = call("rehearse", run, "--client", ids[0], "--oracles", "2", "--json")
    found = parsed(result.stdout)
    assert found["audit"] == 1
    assert found["targets"] == [ids[0]]
    assert list(found["clients"]) == ids[1:]
    assert "All 2 oracles are there already." in result.stderr
    done = parsed(succeed("forget", run, "--client", ids[0], "--yes", "--json"))
    assert done["shared_sha256_after"] == found["hashes"]["shared_after"]
    assert done["state_sha256_after"] == found["hashes"]["state_after"]


def test_audit_after_the_fact_as_text_and_as_json(forgotten, ids, tmp_path):
    run = copied(forgotten, tmp_path / "run")
    with few_draws():
        text = " ".join(succeed("audit", run, "--target-data", "run", "--oracles", "2").split())
        with Federation.open(run) as federation:
            data = federation.known_data[ids[0]]
        parts = {"train": data.train, "test": data.test}
        arrays = {f"x_{name}": part.x.numpy() for name, part in parts.items()}
        arrays |= {f"y_{name}": part.y.numpy() for name, part in parts.items()}
        np.savez(tmp_path / "own.npz", **arrays)
        words = ["--target-data", tmp_path / "own.npz", "--oracles", "2", "--json"]
        result = call("audit", run, *words)
    found = parsed(result.stdout)
    assert "All 2 oracles are there already." in result.stderr
    assert "Verdict: " in text
    assert "Limit: Not tested: the stale head" in text
    assert "gone" in text
    assert found["kind"] == "audit"
    assert found["audit"] == 2
    assert found["verdict"]["verdict"] in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rehearse RUN", "Name at least one client"),
        ("rehearse RUN --client nobody", "There is no client 'nobody'"),
        ("rehearse RUN --client ID --away nobody", "'nobody' is not one of the clients"),
        ("rehearse RUN --client ID --level deep", "deep"),
        ("rehearse RUN --client ID --oracles 0", "--oracles"),
        ("rehearse RUN --client ID --level instant --oracles 2", "has no oracles"),
        ("audit RUN --level instant", "instant"),
        ("rehearse RUN --client ID --correction reset --step 0.1", "'reset' has no --step"),
        ("rehearse NOWHERE --client ID", "There is no run at"),
        ("audit RUN", "No removal has been honoured in this run"),
        ("audit RUN --request 3 --target-data run", "No removal with the number 3"),
        ("audit NOWHERE", "There is no run at"),
        ("report RUN --request 1", "There is no finished request 1 in this run; there are: none."),
        ("report RUN --format docx", "docx"),
        ("report NOWHERE", "There is no run at"),
    ],
)
def test_a_mistake_gets_one_sentence_and_changes_nothing(words, sentence, start, ids):
    before = everything(start)
    places = {"RUN": str(start), "NOWHERE": str(start / "nowhere"), "ID": ids[0]}
    assert sentence in refuse(*(places.get(word, word) for word in words.split()))
    assert everything(start) == before
    assert not (start / "oracles").exists()
    assert not (start / "reports").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rehearse RUN --client ID", "was already forgotten (request 1"),
        ("audit RUN", "Bring samples of ID with --target-data FILE.npz, or say --target-data run"),
        ("audit RUN --target-data nothing.npz", "There is no file nothing.npz"),
        ("audit RUN --target-data run --request 2", "No removal with the number 2"),
        ("report RUN --request 2", "There is no finished request 2 in this run; there are: 1."),
    ],
)
def test_mistakes_after_a_removal(words, sentence, forgotten, ids):
    before = everything(forgotten)
    places = {"RUN": str(forgotten), "ID": ids[0]}
    found = refuse(*(places.get(word, word) for word in words.split()))
    assert sentence.replace("ID", ids[0]) in found
    assert everything(forgotten) == before


def test_a_run_that_was_not_trained_has_nothing_to_rehearse(tmp_path, ids):
    options = {"clients": 4, "samples": 240, "model": "mlp:hidden=16", "partition": "iid"}
    Federation.create(tmp_path / "run", engine="inline", **options).close()
    assert "has not been trained" in refuse("rehearse", tmp_path / "run", "--client", ids[0])


def test_a_run_without_records_cannot_be_rehearsed(tmp_path, ids):
    succeed("train", tmp_path / "run", *FAST.split(), "--rounds", "1", "--record", "none")
    assert "keeps no contributions record" in refuse(
        "rehearse", tmp_path / "run", "--client", ids[0]
    )
    assert not (tmp_path / "run/oracles").exists()


def test_while_a_request_is_pending_no_other_removal_is_rehearsed(start, ids, tmp_path):
    run = copied(start, tmp_path / "run")

    def interrupt(stage, _done, _of):
        if stage == "recalibration":
            raise KeyboardInterrupt

    with Federation.open(run) as federation, pytest.raises(KeyboardInterrupt):
        federation.forget(ids[0], callbacks=[AtStage(interrupt)])
    for clients in (ids[1:2], ids[:2]):
        found = refuse("rehearse", run, *(f"--client={client}" for client in clients))
        assert f"Request 1 to forget {ids[0]} is not finished" in found
    assert "No removal has been honoured" in refuse("audit", run, "--target-data", "run")
    succeed("report", run)  # of which nothing is known yet


def test_after_a_removal_that_changed_nothing_another_one_can_be_rehearsed(start, ids, tmp_path):
    run = copied(start, tmp_path / "run")
    refuse("forget", run, "--client", ids[0], "--correction", "paper", "--alpha", "100")
    before = everything(run)
    found = parsed(call("rehearse", run, "--client", ids[0], "--json").stdout)
    assert everything(run)[::2] == before[::2], "all but audits"
    done = parsed(succeed("forget", run, "--client", ids[0], "--yes", "--json"))
    assert done["shared_sha256_after"] == found["hashes"]["shared_after"]
    assert done["state_sha256_after"] == found["hashes"]["state_after"]
    assert done["rehearsal"]["differences"] == []


def test_an_interrupted_rehearsal_ends_with_a_sentence(start, ids, tmp_path, monkeypatch):
    run = copied(start, tmp_path / "run")

    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pfedul.audit.rehearsal.trained_oracles", interrupted)
    result = call("rehearse", run, "--client", ids[0], "--level", "quick")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert "Interrupted; everything that was finished is saved." in result.stderr


# Without oracles


def test_rehearse_without_a_level_trains_nothing(start, ids, tmp_path):
    run = copied(start, tmp_path / "run")
    result = call("rehearse", run, "--client", ids[0])
    assert result.exit_code == 0, result.output
    assert "Nothing is trained for this audit" in " ".join(result.stderr.split())
    text = " ".join(result.stdout.split())
    assert "Verdict: " in text
    assert "might not have been seen" in text
    assert "smallest visible" in text
    assert "Limit: It holds only if the client's training and test samples" in text
    assert not (run / "oracles").exists()
    found = parsed(succeed("rehearse", run, "--client", ids[0], "--json"))
    assert found["level"] == "instant"
    assert found["oracles"] == found["controls"] == found["roc"] == []
    assert {row["surface"] for row in found["tests"]} == {"remaining", "stale", "probe"}


def test_forget_says_what_it_measured_unless_told_not_to(start, ids, tmp_path):
    runs = [copied(start, tmp_path / name) for name in ("watched", "alone")]
    text = " ".join(succeed("forget", runs[0], "--client", ids[0], "--yes").split())
    assert "might not have been seen" in text
    shown = parsed(succeed("status", runs[0], "--json"))["requests"][0]["audit"]
    assert f"Removed {ids[0]} (request 1): {shown['verdict']}." in text
    words = ["forget", runs[1], "--client", ids[0], "--yes", "--no-audit"]
    alone = parsed(succeed(*words, "--json"))
    assert alone["audit"] is None
    assert "audit" not in alone["stages"]
    assert parsed(succeed("status", runs[1], "--json"))["requests"][0]["audit"] is None


@pytest.mark.parametrize("form", ["html", "md", "json"])
def test_a_report_shows_what_the_removal_measured(form, start, ids, tmp_path):
    run, place = copied(start, tmp_path / "run"), tmp_path / "page"
    done = parsed(succeed("forget", run, "--client", ids[0], "--yes", "--json"))
    succeed("report", run, "--format", form, "--output", place)
    text = place.read_text(encoding="utf-8")
    if form == "json":
        assert parsed(text)["evidence"]["tests"] == done["audit"]["tests"]
    else:
        assert "AUC before" in text
        assert "What an attacker does" in text


# report


@pytest.mark.parametrize("form", FORMATS)
def test_each_format_is_written_into_the_run_folder(form, forgotten, ids, tmp_path):
    run = copied(forgotten, tmp_path / "run")
    before = everything(run)
    assert "Wrote" in succeed("report", run, "--format", form)
    file = run / "reports" / FORMATS[form]
    text = file.read_text(encoding="utf-8")
    assert ids[0] in text
    assert [path.name for path in (run / "reports").iterdir()] == [FORMATS[form]]
    if form == "json":
        assert parsed(text)["applies"] == {"holds": True, "differences": []}
    assert everything(run) == before


def test_where_the_report_is_can_be_read_as_json(forgotten, tmp_path):
    place = tmp_path / "report.md"
    found = parsed(succeed("report", forgotten, "--format", "md", "--output", place, "--json"))
    assert found == {"report": str(place), "format": "md", "picture": None}
    text = place.read_text()
    succeed("report", forgotten, "--format", "md", "--output", place)
    assert place.read_text() == text


def test_a_report_goes_where_it_is_asked_to(forgotten, tmp_path):
    place = tmp_path / "new folder" / "page"
    succeed("report", forgotten, "--output", place, "--format", "json")
    assert parsed(place.read_text())["request"]["request"] == 1
    assert not (forgotten / "reports").exists()


def test_a_report_that_cannot_be_written_is_one_sentence(forgotten, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "x.html", tmp_path / "file" / "y" / "x.html"):
        found = refuse("report", forgotten, "--format", "md", "--output", place)
        assert "The report cannot be written to" in found


def test_there_is_a_report_before_any_removal_and_without_evidence(start, rehearsed, ids, tmp_path):
    for name, run in (("nothing", start), ("rehearsed", rehearsed[0])):
        for form in ("html", "md", "json"):
            place = tmp_path / f"{name}.{form}"
            succeed("report", run, "--format", form, "--output", place)
            assert place.stat().st_size > 300
    done = copied(start, tmp_path / "run")
    succeed("forget", done, "--client", ids[1], "--yes")
    for form in ("md", "json"):
        succeed("report", done, "--format", form)
    assert len(list((done / "reports").iterdir())) == 2
    succeed("forget", done, "--client", ids[2], "--yes")
    assert not (done / "reports").exists()
