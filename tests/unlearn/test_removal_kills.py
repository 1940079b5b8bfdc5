"""Forgetting that is killed or interrupted: pending and untouched, or done without a trace."""

import json
import os
import signal
from pathlib import Path

import pytest

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.scripts import run_script
from helpers.told import AtStage
from helpers.toys import tensor_digests
from pfedul import PfedulError
from pfedul.base.tensorfile import encode, read_file
from pfedul.status import read_status
from pfedul.unlearn import removal

STRONG = {"correction": "trust-region:clip=0.3"}
REPAIRED = {"correction": "exclude", "repair_rounds": 3, "repair": "distil"}
"""With the record of contributions, which the rounds change as well."""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A trained run."""
    return trained(
        tmp_path_factory.mktemp("kills") / "run", rounds=2, record="fisher+contributions"
    )


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory):
    """The tensors after forgetting that nobody disturbed, without and with repair."""
    found = {}
    for rounds, options in ((0, STRONG), (3, REPAIRED)):
        run = copied(start, tmp_path_factory.mktemp("kills") / "run")
        with deep_again(run) as federation:
            federation.forget(TARGET, **options)
        found[rounds] = tensor_digests(run)
    return found


def kill(run: Path, how: str, times: int, options: dict) -> list[Path]:
    """The copies of the run, each as a kill left it."""
    tests = Path(__file__).parent.parent
    script = str(tests / "helpers" / "forgetting_kill.py")
    done = run_script(script, run, how, str(times), json.dumps(options))
    assert done.returncode == 0, done.stderr
    ends = done.stdout.splitlines()
    assert set(ends) <= {"killed", "exit 0"}, done.stderr
    return [run.with_name(f"{run.name}-{number + 1}") for number in range(len(ends))]


def status_of(run: Path) -> str:
    """What the ledger says of the request: not asked, pending or done."""
    requests = read_status(run)["requests"]
    return requests[0]["status"] if requests else "not asked"


def committed(run: Path) -> dict[str, str]:
    """The tensor files that count: what lies in staging and notes of methods do not."""
    others = ("staging/", "unlearning/")
    return {k: v for k, v in tensor_digests(run).items() if not k.startswith(others)}


def trace(run: Path) -> list[Path]:
    left = {"staging", "unlearning"}
    return [path for path in run.rglob("*") if TARGET in path.name or path.name in left]


def check(run: Path, before: dict) -> str:
    """What a kill left is one of the allowed states, as it lies there and after it is opened."""
    status = status_of(run)
    if status in {"not asked", "pending"}:
        assert committed(run) == before
        return status
    with deep_again(run) as federation:  # which finishes a commit that was under way
        assert TARGET not in federation.clients
    assert trace(run) == []
    return status


def finish(run: Path, options: dict) -> None:
    """Ask again for what is not done; asked for once more it changes nothing."""
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, **options)
        assert federation.forget(TARGET, **options) == outcome
    assert status_of(run) == "done"
    assert trace(run) == []


def test_killed_before_each_durable_act_it_ends_with_the_same_bits(start, uninterrupted, tmp_path):
    before = tensor_digests(start)
    runs = kill(copied(start, tmp_path / "run"), "steps", 1, STRONG)
    states = [check(run, before) for run in runs]
    assert len(runs) > 30
    assert states == sorted(states, key=["not asked", "pending", "done"].index)
    assert set(states) == {"not asked", "pending", "done"}
    assert states.count("done") > 5  # killed while files were moved and removed
    pending = [run for run, state in zip(runs, states, strict=True) if state != "done"]
    for run in pending[::6]:
        finish(run, STRONG)
    done = [run for run in runs if run not in pending]
    for run in pending[::6] + done:
        assert tensor_digests(run) == uninterrupted[0]


def test_killed_in_the_middle_of_repair_it_ends_with_the_same_bits(start, uninterrupted, tmp_path):
    before = tensor_digests(start)
    runs = kill(copied(start, tmp_path / "run"), "steps", 5, REPAIRED)
    states = [check(run, before) for run in runs]
    assert {"pending", "done"} <= set(states)
    noted = [run for run in runs if any((run / "unlearning").rglob("repair.safetensors"))]
    begun = [run for run in runs if any((run / "unlearning").rglob("repair-*/*.safetensors"))]
    assert noted
    for run in {*noted[::2], *begun[::3], runs[-1]}:
        finish(run, REPAIRED)
        assert tensor_digests(run) == uninterrupted[3]
        assert read_status(run)["rounds"] == 2


@pytest.mark.parametrize("method", ["fine-tune:rounds=2,ascent=2", "retrain"])
def test_a_method_that_is_killed_on_its_way_ends_with_the_same_bits(method, start, tmp_path):
    before, options = tensor_digests(start), {"method": method}
    with deep_again(copied(start, tmp_path / "whole")) as federation:
        federation.forget(TARGET, **options)
    runs = kill(copied(start, tmp_path / "run"), "steps", 5, options)
    states = [check(run, before) for run in runs]
    assert {"pending", "done"} <= set(states)
    noted = [run for run in runs if any((run / "unlearning").rglob("*.safetensors"))]
    assert noted  # killed with steps that need not be done again
    for run in {runs[0], *noted[::2], runs[-1]}:
        finish(run, options)
        assert tensor_digests(run) == tensor_digests(tmp_path / "whole")


@pytest.mark.parametrize("rounds", [0, 3])
def test_killed_at_random_moments_it_ends_with_the_same_bits(
    rounds, start, uninterrupted, tmp_path
):
    before, options = tensor_digests(start), REPAIRED if rounds else STRONG
    for run in kill(copied(start, tmp_path / "run"), "random", 6, options):
        check(run, before)
        finish(run, options)
        assert tensor_digests(run) == uninterrupted[rounds]


def interrupt_at(stage: str, done: int):
    def on_stage(name, count, _of):
        if (name, count) == (stage, done):
            raise KeyboardInterrupt

    return on_stage


@pytest.mark.parametrize(
    ("stage", "done"),
    [("plan", 0), ("plan", 1), ("recalibration", 2), ("erasure", 1)],
)
def test_ctrl_c_leaves_the_request_pending_and_the_tensors_untouched(
    stage, done, start, uninterrupted, tmp_path
):
    run = copied(start, tmp_path / "run")
    before = tensor_digests(run)
    with deep_again(run) as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.forget(TARGET, callbacks=[AtStage(interrupt_at(stage, done))], **STRONG)
        assert tensor_digests(run) == before
        assert TARGET in federation.clients
    assert status_of(run) == "pending"
    assert tensor_digests(run) == before
    with deep_again(run) as federation:
        with pytest.raises(PfedulError, match=f"Request 1 to forget {TARGET} is not finished"):
            federation.train(3)
        with pytest.raises(PfedulError, match=f"Request 1 to forget {TARGET} is not finished"):
            federation.forget("c2")
        assert tensor_digests(run) == before
        outcome = federation.forget(TARGET, **STRONG)
    assert outcome.request == 1
    assert tensor_digests(run) == uninterrupted[0]
    assert len(read_status(run)["requests"]) == 1


def test_asked_again_in_the_same_process_it_finishes(start, tmp_path):
    run = copied(start, tmp_path / "run")
    with deep_again(run) as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.forget(
                TARGET, callbacks=[AtStage(interrupt_at("recalibration", 2))], **STRONG
            )
        federation.forget(TARGET, **STRONG)
        federation.train(3)
    with deep_again(copied(start, tmp_path / "other")) as federation:
        federation.forget(TARGET, **STRONG)
        federation.train(3)
    assert tensor_digests(run) == tensor_digests(tmp_path / "other")


@pytest.mark.parametrize("done", [0, 1, 3])
def test_ctrl_c_between_repair_rounds_leaves_the_request_pending(
    done, start, uninterrupted, tmp_path
):
    run, steps = copied(start, tmp_path / "run"), []
    before = tensor_digests(run)
    with deep_again(run) as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.forget(TARGET, callbacks=[AtStage(interrupt_at("repair", done))], **REPAIRED)
        assert committed(run) == before
    assert status_of(run) == "pending"
    with deep_again(run) as federation:
        outcome = federation.forget(
            TARGET,
            callbacks=[AtStage(lambda stage, at, _of: steps.append((stage, at)))],
            **REPAIRED,
        )
    assert outcome.rounds == 3
    if done == 3:  # the last step is always saved
        assert min(at for stage, at in steps if stage == "repair") == 3
    assert tensor_digests(run) == uninterrupted[3]


def test_a_repair_that_is_asked_for_otherwise_begins_again(start, uninterrupted, tmp_path):
    run = copied(start, tmp_path / "run")
    other = {**REPAIRED, "repair": "ordinary"}
    with deep_again(run) as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.forget(TARGET, callbacks=[AtStage(interrupt_at("repair", 3))], **other)
        outcome = federation.forget(TARGET, **REPAIRED)
    assert "begun with repair ordinary" in outcome.notes[0]
    assert tensor_digests(run) == uninterrupted[3]


def test_ctrl_c_during_the_commit_counts_once_it_is_over(start, tmp_path):
    """The commit is done, so the federation must go on without the target."""
    run = copied(start, tmp_path / "run")
    with deep_again(run) as federation:
        write = federation.store.ledger.write

        def write_and_interrupt(statements):
            statements = list(statements)
            write(statements)
            if any("UPDATE requests" in str(statement) for statement in statements):
                signal.raise_signal(signal.SIGINT)

        federation.store.ledger.write = write_and_interrupt
        with pytest.raises(KeyboardInterrupt):
            federation.forget(TARGET, **STRONG)
        federation.store.ledger.write = write
        assert status_of(run) == "done"
        assert trace(run) == []
        assert TARGET not in federation.clients
        assert federation.forget(TARGET, **STRONG).request == 1
        federation.train(3)
    with deep_again(copied(start, tmp_path / "other")) as federation:
        federation.forget(TARGET, **STRONG)
        federation.train(3)
    assert tensor_digests(run) == tensor_digests(tmp_path / "other")


def test_a_disk_that_fails_after_the_transaction_loses_nothing(start, tmp_path, monkeypatch):
    """The removal is committed by then: the next opening finishes it."""
    run = copied(start, tmp_path / "run")
    replace_file = os.replace

    def fail(source, target):
        if "/staging/" in str(source) and "/unit/" not in str(source):
            raise OSError(5, "Input/output error")
        replace_file(source, target)

    federation = deep_again(run)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(PfedulError, match="Input/output error"):
            federation.forget(TARGET)
    federation.close()
    with deep_again(run) as federation:
        assert TARGET not in federation.clients
    assert not (run / "clients" / TARGET).exists()


def test_killed_before_its_notes_are_cleared_a_removal_that_is_done_keeps_none(
    start, tmp_path, monkeypatch
):
    """The target is in them, and its removal is committed already."""
    run, killed = copied(start, tmp_path / "run"), tmp_path / "killed"
    clear = removal.clear_notes

    def copy_and_clear(place):
        copied(run, killed)  # what a kill at this moment would leave on disk
        clear(place)

    with monkeypatch.context() as patch, deep_again(run) as federation:
        patch.setattr(removal, "clear_notes", copy_and_clear)
        federation.forget(TARGET, **REPAIRED)
    assert any((killed / "unlearning").rglob("*.safetensors"))
    assert check(killed, {}) == "done"
    assert tensor_digests(killed) == tensor_digests(run)


def full(_descriptor):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("hindrance", ["disk", "away"])
def test_a_hindrance_that_may_pass_leaves_the_request_pending(hindrance, start, tmp_path):
    """What was done before it is not done again."""
    options = {"method": "fine-tune:rounds=2,ascent=2"}
    whole, run = copied(start, tmp_path / "whole"), copied(start, tmp_path / "run")
    with deep_again(whole) as federation:
        federation.forget(TARGET, **options)
    before, steps = tensor_digests(run), []
    with deep_again(run) as federation, pytest.MonkeyPatch.context() as patch:

        def hinder(stage, done, _of):
            if (stage, done) == ("ascent", 2):
                patch.setattr(os, "fsync", full)

        away = ["c0", "c2", "c3"] if hindrance == "away" else []
        words = "No space left" if hindrance == "disk" else "all of them are away"
        callbacks = [AtStage(hinder)] if hindrance == "disk" else []
        with pytest.raises(PfedulError, match=words):
            federation.forget(TARGET, away=away, callbacks=callbacks, **options)
    assert status_of(run) == "pending"
    assert committed(run) == before
    assert any((run / "unlearning").rglob("*.safetensors"))
    with deep_again(run) as federation:
        federation.forget(
            TARGET,
            callbacks=[AtStage(lambda stage, done, _of: steps.append((stage, done)))],
            **options,
        )
    if hindrance == "disk":
        assert min(done for stage, done in steps if stage == "ascent") == 2
    assert tensor_digests(run) == tensor_digests(whole)


def emptied(note):
    """As a power cut may leave it."""
    note.write_bytes(b"")


def changed(note):
    """Somebody who can write to the run would decide what the removal ends with."""
    tensors = read_file(note)
    moved = {n: t + t.is_floating_point() for n, t in tensors.items()}
    note.write_bytes(encode(moved))


def interrupted_with_notes(run, options, stage, done):
    with deep_again(run) as federation, pytest.raises(KeyboardInterrupt):
        federation.forget(TARGET, callbacks=[AtStage(interrupt_at(stage, done))], **options)
    notes = list((run / "unlearning").rglob("*.safetensors"))
    assert notes
    return notes


def test_what_was_kept_of_a_repair_and_then_changed_ends_the_removal(start, tmp_path):
    run = copied(start, tmp_path / "run")
    before = committed(run)
    for note in interrupted_with_notes(run, REPAIRED, "recalibration", 1):
        if note.parent.name == "repair-1":
            changed(note)
    with (
        deep_again(run) as federation,
        pytest.raises(PfedulError, match="is not as your key sealed it"),
    ):
        federation.forget(TARGET, **REPAIRED)
    assert status_of(run) == "refused"
    assert committed(run) == before


@pytest.mark.parametrize("spoil", [emptied, changed])
def test_a_note_that_is_not_as_it_was_written_is_none(spoil, start, tmp_path):
    options = {"method": "fine-tune:rounds=2,ascent=2"}
    whole, run = copied(start, tmp_path / "whole"), copied(start, tmp_path / "run")
    with deep_again(whole) as federation:
        federation.forget(TARGET, **options)
    for note in interrupted_with_notes(run, options, "ascent", 2):
        spoil(note)
    with deep_again(run) as federation:
        federation.forget(TARGET, **options)
    assert tensor_digests(run) == tensor_digests(whole)
