"""The command line as users meet it: results, JSON, exit codes, one sentence for each mistake."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.commands import refuse, succeed
from helpers.toys import create, tensor_digests
from pfedul.cli import main

FAST = "--clients 3 --samples 120 --local-epochs 1 --model mlp --engine inline --partition iid"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    succeed("train", folder, *FAST.split(), "--rounds", "2", "--evaluate-every", "1")
    return folder


def test_train_says_what_it_did_and_what_comes_next(tmp_path):
    out = succeed("train", tmp_path / "r", *FAST.split(), "--rounds", "1")
    assert "Trained rounds 1 to 1" in out
    assert "pfedul evaluate" in out.replace("\n", " ")


def test_train_continues_and_says_when_there_is_nothing_to_do(tmp_path):
    succeed("train", tmp_path / "r", *FAST.split(), "--rounds", "1")
    assert "Trained rounds 2 to 3" in succeed("train", tmp_path / "r", "--rounds", "3")
    assert "Nothing to do" in succeed("train", tmp_path / "r", "--rounds", "2")


def test_the_written_configuration_runs_again_to_the_same_bits(run, tmp_path):
    succeed("train", tmp_path / "again", "--config", run / "federation.toml")
    assert tensor_digests(tmp_path / "again") == tensor_digests(run)


def test_options_win_over_the_file(run, tmp_path):
    succeed("train", tmp_path / "r", "--config", run / "federation.toml", "--rounds", "1")
    assert json.loads(succeed("status", tmp_path / "r", "--json"))["rounds"] == 1


def test_status_for_people_and_for_programs(run):
    text = succeed("status", run)
    assert "rounds    2 of 2" in text
    assert "refused   no replies; none shortened" in text
    found = json.loads(succeed("status", run, "--json"))
    assert set(found) == {
        *("run", "personalization", "data", "task", "figure", "model", "rounds", "rounds_asked"),
        "clients",
        *("accuracy_now", "loss", "accuracy", "requests", "audits", "refused", "cost"),
        *("bytes", "records", "chain", "privacy"),
    }
    assert [point["round"] for point in found["accuracy"]] == [1, 2]
    assert found["bytes"]["total"] == sum(
        file.stat().st_size for file in run.rglob("*") if file.is_file()
    )
    assert found["bytes"]["personal"] > 0
    assert found["cost"]["commit_seconds"] > 0


def test_evaluate_for_people_and_for_programs(run):
    assert "worst" in succeed("evaluate", run)
    found = json.loads(succeed("evaluate", run, "--json"))
    assert set(found) == {"round", "mean", "worst", "spread", "clients"}
    accuracies = [client["accuracy"] for client in found["clients"]]
    assert found["mean"] == pytest.approx(sum(accuracies) / 3)
    assert found["worst"]["accuracy"] == min(accuracies)


def test_train_json_is_the_status(tmp_path):
    out = succeed("train", tmp_path / "r", *FAST.split(), "--rounds", "1", "--json")
    assert json.loads(out)["rounds"] == 1


@pytest.mark.parametrize("command", ["datasets", "models", "personalizations"])
def test_lists(command):
    rows = json.loads(succeed(command, "--json"))[command]
    text = succeed(command)
    assert all(row["name"] in text for row in rows)


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_help_with_an_example_and_json(command):
    text = succeed(command, "--help")
    assert "Example:" in text
    assert f"pfedul {command}" in text
    assert "--json" in text


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--data imagenet", "Unknown data set 'imagenet'; known are: digits"),
        ("--model vit", "Unknown model 'vit'; known are: resnet18"),
        ("--personalization x", "Unknown personalization 'x'; known are: fedavg"),
        ("--rounds -3", "--rounds must be at least 0"),
        ("--clients 0", "--clients must be at least 1"),
        ("--clients 5000", "5000 clients"),
        ("--lr 0", "--lr must be above 0"),
        ("--data cifar10 --data-root /nowhere", "cifar-10-binary.tar.gz"),
        ("--model mlp --personalization fedbn", "BatchNorm"),
        ("--model resnet18 --head nothing", "The head 'nothing' is not a submodule"),
        ("--config missing.toml", "There is no configuration file"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(options, sentence, tmp_path):
    message = refuse("train", tmp_path / "run", *options.split())
    assert sentence in message.replace("\n", " ")
    assert not (tmp_path / "run").exists()


def test_a_configuration_file_with_an_unknown_key(tmp_path):
    (tmp_path / "x.toml").write_text("rounds = 3\nlearning-rate = 0.1\n")
    assert "Unknown key 'learning-rate'" in refuse(
        "train", tmp_path / "run", "--config", tmp_path / "x.toml"
    )


def test_a_conflicting_option_is_refused_and_changes_nothing(run):
    before = tensor_digests(run), (run / "federation.toml").read_text()
    message = refuse("train", run, "--lr", "0.5", "--rounds", "9")
    assert "--lr 0.01, which cannot become 0.5" in message
    assert before == (tensor_digests(run), (run / "federation.toml").read_text())


@pytest.mark.parametrize("command", ["train", "status", "evaluate"])
def test_a_run_that_is_a_file(command, tmp_path):
    (tmp_path / "file").write_text("not a run")
    assert "is a file, not a run folder" in refuse(command, tmp_path / "file")


@pytest.mark.parametrize("command", ["status", "evaluate"])
def test_a_run_that_is_not_there(command, tmp_path):
    assert "There is no run at" in refuse(command, tmp_path / "nothing")
    assert "is not a pfedul run folder" in refuse(command, tmp_path)


def test_a_run_made_in_python_with_its_own_model_is_refused_with_advice(tmp_path):
    create(tmp_path / "run").close()
    assert "give them again" in refuse("train", tmp_path / "run", "--rounds", "9")


def test_a_damaged_run_is_refused(tmp_path):
    succeed("train", tmp_path / "r", *FAST.split(), "--rounds", "1")
    file = tmp_path / "r/shared.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    assert "damaged" in refuse("evaluate", tmp_path / "r")


def start_training(run: Path, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "pfedul", "train", str(run), *FAST.split(), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_rounds(run: Path, wanted: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        started = (run / "ledger.db").is_file()
        if started and json.loads(succeed("status", run, "--json"))["rounds"] >= wanted:
            return
        time.sleep(0.05)
    raise AssertionError("training did not get going")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_with_a_sentence_and_loses_no_round(number, tmp_path):
    run = tmp_path / "run"
    process = start_training(run, "--rounds", "100000", "--checkpoint-every", "1")
    wait_for_rounds(run, 3)
    assert "Another process" in refuse("recalibrate", run)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    rounds = json.loads(succeed("status", run, "--json"))["rounds"]
    assert f"Stopped after round {rounds}, which is saved" in errors
    succeed("train", run, "--rounds", str(rounds + 1))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert "Cannot write to" in refuse("train", tmp_path / "file/run", *FAST.split())


def test_names_with_brackets_are_printed_as_they_are(tmp_path):
    out = succeed("train", tmp_path / "exp[a]", *FAST.split(), "--rounds", "1")
    assert f"pfedul evaluate {tmp_path / 'exp[a]'}" in out


def test_fewer_rounds_than_there_are_change_nothing(run):
    before = (run / "federation.toml").read_text()
    succeed("train", run, "--rounds", "1")
    assert (run / "federation.toml").read_text() == before


def test_status_while_a_commit_moves_files(run):
    """Files vanish under the reader's eyes; staging is not counted."""
    (run / "staging/1").mkdir(parents=True)
    (run / "staging/1/shared.safetensors").write_bytes(b"x" * 1000)
    before = json.loads(succeed("status", run, "--json"))["bytes"]["total"]
    shutil.rmtree(run / "staging")
    assert json.loads(succeed("status", run, "--json"))["bytes"]["total"] == before


def test_the_processes_engine_through_the_command_line(run, tmp_path):
    options = ["--config", run / "federation.toml", "--engine", "processes", "--workers", "2"]
    succeed("train", tmp_path / "r", *options)
    assert tensor_digests(tmp_path / "r") == tensor_digests(run)


def test_ctrl_c_while_workers_work_leaves_none_behind(tmp_path):
    run = tmp_path / "run"
    process = start_training(run, "--rounds", "100000", "--engine", "processes", "--workers", "2")
    wait_for_rounds(run, 2)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
    assert children.stdout == ""


@pytest.mark.parametrize("word", ["data", "model"])
def test_own_is_no_choice_of_the_command_line(word, tmp_path):
    assert "given in Python" in refuse("train", tmp_path / "run", f"--{word}", "own")


def test_importing_leaves_the_callers_streams_alone():
    code = (
        "import sys; import pfedul.report, pfedul.compare, pfedul.terminal.console; "
        "assert (sys.stdout.errors, sys.stderr.errors) == ('strict', 'backslashreplace')"
    )
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_terminal_that_cannot_show_bars_gets_question_marks(run):
    words = [sys.executable, "-m", "pfedul", "evaluate", str(run)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(words, check=True, env=environment, capture_output=True, text=True)
    assert " ?" in result.stdout
