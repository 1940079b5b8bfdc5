"""What audits leave: nothing of a client who was forgotten, whenever and however it was stopped."""

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from helpers.auditing import counted_tasks, interrupt_at, rehearse, tables
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.killing import in_child
from helpers.scripts import run_script
from helpers.told import AtStage
from helpers.toys import tensor_digests
from pfedul import PfedulError
from pfedul.store import copies as places
from pfedul.store.marker import mark
from unlearn.test_removal_erasure import content, ledger_markers, left, raw, windows

STRONG = {"correction": "trust-region:clip=0.3"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("erasure") / "run", rounds=2, evaluate_every=1)


@pytest.fixture(scope="module")
def rehearsed(start, tmp_path_factory):
    """A run in which the removal of the target was rehearsed, and who is in the audit's rows."""
    run = copied(start, tmp_path_factory.mktemp("rehearsed") / "run")
    with deep_again(run) as federation:
        rehearse(federation, TARGET, **STRONG)
    return run


@pytest.fixture
def run(rehearsed, tmp_path):
    return copied(rehearsed, tmp_path / "run")


def oracle_folders(run: Path) -> list[Path]:
    return sorted((run / "oracles").glob("*"))


def markers_of(run: Path, client: str) -> set[bytes]:
    """Stretches of the client's files, those of copies, twins and oracles included.

    None is in a file that stays; the numbers of its rows in the ledger are among them.
    """
    files = set(run.rglob("*.safetensors"))
    own = {file for file in files if client in (file.stem, file.parent.name)}
    stays = [f for f in files - own if "rehearsal" not in f.parts and f.name[:6] != "fisher"]
    others = b"\n".join(file.read_bytes() for file in stays)
    found = windows([tensor for file in own for tensor in raw(file)])
    return {m for m in found if any(m) and m not in others} | ledger_markers(run, client)


def test_after_rehearsal_and_removal_no_byte_of_the_target_is_left(run):
    found = markers_of(run, TARGET)
    assert set(left(run, found)) == found
    assert len(found) > 60
    before = {marker for marker in windows(raw(run / "shared.safetensors")) if any(marker)}
    with deep_again(run) as federation:
        federation.forget(TARGET, **STRONG)
        assert left(run, found) == []
    assert left(run, found) == []
    after = windows(raw(run / "shared.safetensors"))
    assert left(run, before - after) == []
    assert len(oracle_folders(run)) == 2  # they have nothing of the target, and may stay
    assert not (run / "rehearsal").exists()


def test_another_client_who_is_forgotten_takes_oracles_and_figures_with_it(run):
    """Oracles were trained with it, and the audit has rows that speak of it."""
    found = markers_of(run, "c2")
    assert set(left(run, found)) == found
    (figures,) = [r["figures"] for r in tables(run)["audit_clients"] if r["client"] == "c2"]
    stays = [r["figures"] for r in tables(run)["audit_clients"] if r["client"] == "c0"]
    assert len(list(run.glob("oracles/*/clients/c2/*"))) == 2
    assert figures.encode() in content(run)
    with deep_again(run) as federation:
        federation.forget("c2")
    assert left(run, found) == []
    assert not (run / "oracles").exists()
    assert figures.encode() not in content(run)
    assert [r["client"] for r in tables(run)["audit_clients"]] == ["c0", "c3"]
    assert tables(run)["audit_clients"][0]["figures"] == stays[0]
    assert len(tables(run)["audits"]) == 1


def test_what_a_killed_process_did_not_sweep_goes_at_the_next_opening(run, monkeypatch):
    """The removal is committed; the process is killed before it removes the oracles."""
    with monkeypatch.context() as patch:
        patch.setattr("pfedul.run.run.sweep", lambda *_: None)
        with deep_again(run) as federation:
            federation.forget("c2")
    found = {m for f in run.glob("oracles/*/clients/c2/*") for m in windows(raw(f)) if any(m)}
    assert found
    assert left(run, found)
    with deep_again(run) as federation:
        assert "c2" not in federation.clients
        assert not (run / "oracles").exists()
    assert left(run, found) == []


@pytest.mark.parametrize("stage", ["recalibration", "erasure", "questions"])
def test_an_interrupted_rehearsal_leaves_no_sealed_copy(stage, start, tmp_path):
    run = copied(start, tmp_path / "run")
    with deep_again(run) as federation, pytest.raises(KeyboardInterrupt):
        rehearse(federation, TARGET, on_stage=interrupt_at(stage, 1), **STRONG)
    assert not list((run / "rehearsal").glob("*"))
    assert list((run / "oracles").glob("*"))


@pytest.mark.parametrize("killed", [False, True])
def test_a_copy_that_is_interrupted_is_not_left(killed, start, tmp_path, monkeypatch):
    run = copied(start, tmp_path / "run")

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(places.os, "replace", interrupt)
    if killed:  # nobody cleans up on the way
        mark(run / "rehearsal" / "copy.new")
        with places.copies_erased(run):
            pass
    else:
        with pytest.raises(KeyboardInterrupt):
            places.sealed_copy(run, run, "copy")
    assert not list((run / "rehearsal").glob("*"))


def test_an_interrupted_rehearsal_leaves_nothing_after_the_removal(start, tmp_path):
    run = copied(start, tmp_path / "run")
    before = tensor_digests(run)
    found = markers_of(run, TARGET)
    with deep_again(run) as federation, pytest.raises(KeyboardInterrupt):
        rehearse(federation, TARGET, on_stage=interrupt_at("questions", 1), **STRONG)
    assert before.items() <= tensor_digests(run).items()
    with deep_again(run) as federation:
        federation.forget(TARGET, **STRONG)
    assert left(run, found) == []
    assert not (run / "rehearsal").exists()


@pytest.fixture(scope="module")
def killed(start, tmp_path_factory):
    """Runs whose rehearsal was killed: while oracles and twins are trained, and after."""
    folder = tmp_path_factory.mktemp("killed")
    runs = {stage: copied(start, folder / stage) for stage in STAGES}
    ended = run_script(__file__, folder)
    assert ended.stdout.split() == ["killed"] * len(STAGES), ended.stderr
    return runs


STAGES = {"oracles": 7, "twins": 3, "recalibration": 2, "questions": 1}
"""How much of a stage is done when the process is killed."""


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_rehearsal_leaves_the_run_as_it_was(stage, killed, start):
    run = killed[stage]
    known = tensor_digests(start)
    assert {name: tensor_digests(run)[name] for name in known} == known
    assert tables(run) == tables(start)
    assert (run / "rehearsal").exists() == (stage != "oracles")


@pytest.mark.parametrize("stage", STAGES)
def test_after_a_killed_rehearsal_and_a_removal_no_byte_is_left(stage, killed, tmp_path):
    run = copied(killed[stage], tmp_path / "run")
    found = markers_of(run, TARGET)
    with deep_again(run) as federation:
        federation.forget(TARGET, **STRONG)
    assert not (run / "rehearsal").exists()
    assert left(run, found) == []


def test_killed_at_its_oracles_it_goes_on_where_it_was(killed, rehearsed, tmp_path):
    run = copied(killed["oracles"], tmp_path / "run")
    with deep_again(run) as federation, counted_tasks() as done:
        found = rehearse(federation, TARGET, **STRONG)
    fits = [task for task in done if task[0] == "fit"]
    assert len(fits) < 2 * 2 * 3 + 4  # two oracles of two rounds and three, and one more round
    one, two = (sorted(tensor_digests(r / "oracles").items()) for r in (run, rehearsed))
    assert one == two
    known = json.loads(tables(rehearsed)["audits"][0]["evidence"])
    for key in ("hashes", "tests", "verdict", "measures", "controls"):
        assert found.evidence[key] == known[key]
    assert not (run / "rehearsal").exists()


def test_half_a_copy_of_the_ledger_keeps_nobody_from_opening_the_run(start, tmp_path):
    """Killed while the sealed copy was made; the half of it is of no use, and goes."""
    run = copied(start, tmp_path / "run")
    whole = (run / "ledger.db").read_bytes()
    for name, size in (("no", 0), ("little", 100), ("half", len(whole) // 8 * 4), ("most", -4096)):
        place = run / "rehearsal" / name
        mark(place)
        (place / "ledger.db").write_bytes(whole[:size])
    with deep_again(run) as federation:
        federation.forget(TARGET)
    assert not (run / "rehearsal").exists()


def test_what_cannot_be_erased_is_said(run, monkeypatch):
    def refuse(path, *_arguments, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    mark(run / "rehearsal/copy")
    (run / "rehearsal/copy/clients").mkdir()
    with pytest.raises(PfedulError, match="No permission to write"):
        places.clear_rehearsal(run)
    with pytest.raises(PfedulError, match="No permission to write"):
        places.sweep(run, ["c0", "c1", "c3"])


def test_the_sealed_copy_has_no_reports_oracles_or_lock(run):
    (run / "reports").mkdir()
    (run / "reports/report.html").write_text("old")
    place = places.sealed_copy(run, run, "copy")
    names = {path.name for path in place.iterdir()}
    assert not names & {"reports", "oracles", "rehearsal", "lock", "staging"}
    assert {"clients", "ledger.db", "federation.toml", "shared.safetensors"} <= names


# Reports


def written(run: Path) -> set[str]:
    return {str(file.relative_to(run)) for file in (run / "reports").rglob("*") if file.is_file()}


@pytest.fixture
def with_reports(start, tmp_path):
    run = copied(start, tmp_path / "run")
    (run / "reports/older").mkdir(parents=True)
    for name in ("report.html", "report.json", "older/report.md"):
        (run / "reports" / name).write_text("accuracy of c1: 0.123456")
    return run


def test_reports_go_with_a_removal_because_they_speak_of_who_was_there(with_reports):
    run = with_reports
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET)
        assert written(run) == set()
        assert b"0.123456" not in content(run)
    assert outcome.erased["files"] == 3 + 3


def test_reports_stay_if_the_removal_does_not_happen(with_reports):
    with deep_again(with_reports) as federation, pytest.raises(KeyboardInterrupt):
        federation.forget(TARGET, callbacks=[AtStage(interrupt_at("erasure", 1))])
    assert len(written(with_reports)) == 3


def test_a_report_that_is_written_after_the_removal_stays(with_reports):
    """The removal of the older one of that name is not done a second time."""
    run = with_reports
    with deep_again(run) as federation:
        federation.forget(TARGET)
    (run / "reports").mkdir(exist_ok=True)
    (run / "reports/report.html").write_text("new")
    with deep_again(run):
        pass
    assert written(run) == {"reports/report.html"}


def test_killed_after_the_transaction_the_next_opening_removes_the_reports(
    with_reports, monkeypatch
):
    run = with_reports
    federation = deep_again(run)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _failing)
        with pytest.raises(PfedulError, match="Input/output error"):
            federation.forget(TARGET)
    federation.close()
    assert len(written(run)) == 3
    with deep_again(run):
        assert written(run) == set()
    (run / "reports").mkdir(exist_ok=True)
    (run / "reports/report.html").write_text("new")
    with deep_again(run):
        assert written(run) == {"reports/report.html"}


def _failing(*_arguments, **_options):
    raise OSError(5, "Input/output error")


def die(stage: str, done: int):
    """To be told of stages: SIGKILL when so much of one is done."""

    def on_stage(name, count, _of):
        if name == stage and count >= done:
            os.kill(os.getpid(), signal.SIGKILL)

    return on_stage


def rehearse_and_die(run: Path, stage: str) -> None:
    level = {"level": "strict"} if stage == "twins" else {}
    with deep_again(run) as federation:
        rehearse(federation, TARGET, on_stage=die(stage, STAGES[stage]), **level, **STRONG)


if __name__ == "__main__":
    for name in STAGES:
        place = Path(sys.argv[1]) / name
        print(in_child(partial(rehearse_and_die, place, name)), flush=True)
