"""Exit codes and errors that scripts can use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.commands import call, succeed
from helpers.forgetting_kill import copied
from pfedul.cli.compare import error_of

FAST = "--clients 3 --samples 90 --local-epochs 1 --model mlp:hidden=8 --engine inline --rounds 1"
PLAIN = "--partition iid --min-samples 2"
TARGET = ("--client", "client-02")


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("codes") / "run"
    succeed("train", folder, *FAST.split(), *PLAIN.split())
    return folder


@pytest.fixture(scope="module")
def forgotten(start, tmp_path_factory) -> Path:
    folder = copied(start, tmp_path_factory.mktemp("codes") / "forgotten")
    succeed("forget", folder, *TARGET)
    return folder


@pytest.fixture
def run(forgotten, tmp_path) -> Path:
    return copied(forgotten, tmp_path / "run")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "new", "--lr", "abc"),
        ("train", "new", "--lr", "-1"),
        ("train", "new", "--personalization", "fedrap"),
        ("train", "new", "--model", "mlp:hidden=-1"),
        ("train", "new", "--config", "missing.toml"),
        ("train", "new", "--no-such-option"),
        ("forget", "new", *TARGET, "--alpha", "-1"),
        ("forget", "new", *TARGET, "--alpha", "abc"),
        ("forget", "new", *TARGET, "--method", "unknown"),
        ("forget", "new", *TARGET, "--due", "tomorrow"),
        ("forget", "new", *TARGET, "--no-audit", "--require", "forgotten"),
        ("inspect", "new", *TARGET, "--correction", "none"),
        ("inspect", "new"),
        ("rehearse", "new", *TARGET, "--level", "instant", "--oracles", "2"),
        ("audit", "new", "--oracles", "0"),
        ("no-such-command",),
    ],
    ids=" ".join,
)
def test_a_value_that_cannot_be_is_wrong_usage(words):
    result = call(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sum(line.startswith("Error: ") for line in result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("status", "nowhere"), 1, "There is no run at nowhere"),
        (("train", "new", "--lr", "-1"), 2, "--lr must be above 0, not -1.0."),
        (("train", "new", "--lr", "abc"), 2, "'abc' is not a valid float"),
        (("train", "new", "--model", "CN"), 2, "did you mean 'cnn'?"),
    ],
)
def test_with_json_an_error_is_json(words, code, sentence):
    result = call(*words, "--json")
    error = json.loads(result.stderr)
    assert result.exit_code == code
    assert result.stdout == ""
    assert set(error) == {"error", "exit_code"}
    assert error["exit_code"] == code
    assert sentence in error["error"]


def test_an_interruption_is_json_as_well(monkeypatch, start):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pfedul.status.read_status", interrupted)
    result = call("status", start, "--json")
    assert result.exit_code == 130
    assert json.loads(result.stderr)["exit_code"] == 130


def test_words_of_an_option_may_be_in_capitals(tmp_path):
    succeed("train", tmp_path / "run", *FAST.split(), *PLAIN.split(), "--optimizer", "ADAM")
    assert 'optimizer = "adam"' in (tmp_path / "run/federation.toml").read_text()


def test_asking_again_for_what_is_done_succeeds(run):
    assert "Nothing to do" in succeed("train", run, "--rounds", "1")
    assert "nothing was done again" in succeed("forget", run, *TARGET)
    assert "all have done so" in succeed("recalibrate", run)
    assert "all have done so" in succeed("recalibrate", run)
    succeed("certificate", run)
    succeed("certificate", run)
    assert "Admitted client-02" in succeed("admit", run, *TARGET, "--again")
    before = json.loads(succeed("status", run, "--json"))["chain"]
    assert "is part of this run already" in succeed("admit", run, *TARGET, "--again")
    again = json.loads(succeed("admit", run, *TARGET, "--json"))
    assert again == {"client": "client-02", "joined_round": 1}
    assert json.loads(succeed("status", run, "--json"))["chain"] == before


def test_a_verdict_that_is_less_than_required_is_an_exit_code_of_its_own(run):
    verdict = json.loads(succeed("forget", run, *TARGET, "--json"))["audit"]["verdict"]["verdict"]
    assert verdict != "forgotten"
    result = call("forget", run, *TARGET, "--require", "forgotten", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["audit"]["verdict"]["verdict"] == verdict
    assert f"The verdict is '{verdict}'" in json.loads(result.stderr.splitlines()[-1])["error"]


def test_a_certificate_that_is_less_than_required_is_not_written(run, tmp_path):
    result = call("certificate", run, "--require", "forgotten", "--output", tmp_path / "c.json")
    assert result.exit_code == 3
    assert not (tmp_path / "c.json").exists()
    assert not (run / "certificates").exists()


def test_an_audit_after_the_fact_can_be_required_to_show_something(run):
    words = ("--target-data", "run", "--level", "quick", "--oracles", "1")
    result = call("audit", run, *words, "--require", "forgotten")
    assert result.exit_code == 3, result.output
    assert "--require asks for 'forgotten'" in result.stderr


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([["not forgotten"], ["forgotten", "forgotten"]], None),
        ([["not forgotten"], ["forgotten", "not forgotten"]], 3),
        ([["not forgotten"], []], 3),
    ],
)
def test_a_comparison_meets_a_requirement_with_one_method(verdicts, code):
    document = {
        "cells": [{"asked": True, "failure": None}],
        "methods": [{"asked": True, "verdicts": one} for one in verdicts],
    }
    error = error_of(document, "forgotten")
    assert (error and error.exit_code) == code
    assert error_of(document, None) is None
