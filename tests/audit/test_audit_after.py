"""Audits after the fact: what can still be looked at, with samples that somebody brings."""

import json

import numpy as np
import pytest

from helpers.auditing import counted_tasks, few_draws, rehearse, tables
from helpers.forgetting_kill import CLIENTS, TARGET, copied, deep_again, trained
from helpers.toys import client_data, tensor_digests
from pfedul import PfedulError
from pfedul.audit.after import Inquiry, audit_after, brought_data, honoured_request
from pfedul.audit.levels import level_of
from pfedul.report.material import read_material

STRONG = {"correction": "trust-region:clip=0.3"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run in which the target was rehearsed and forgotten."""
    run = trained(tmp_path_factory.mktemp("after") / "run", rounds=2)
    with deep_again(run) as federation:
        rehearse(federation, TARGET, **STRONG)
        federation.forget(TARGET, **STRONG)
    return run


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


def file_of(folder, client=TARGET, **changes):
    (x_train, y_train), (x_test, y_test) = client_data(CLIENTS)[client]
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    arrays = {name: value.numpy() for name, value in arrays.items()} | changes
    np.savez(
        folder / f"{client}.npz", **{k: value for k, value in arrays.items() if value is not None}
    )
    return str(folder / f"{client}.npz")


def inquiry(federation, given, request=None, oracles=2):
    removal = honoured_request(federation, request)
    data = brought_data(federation, removal.targets, given)
    return Inquiry(federation, removal, data, level_of("quick", oracles))


def audit(federation, *given, **how):
    with few_draws():
        return audit_after(inquiry(federation, given, **how))


def everything(run):
    return tensor_digests(run), tables(run)


def test_it_finds_what_the_rehearsal_found_as_far_as_it_can_still_look(run, tmp_path):
    """The same candidate, oracles and samples: the same figures, without those of the untouched."""
    with deep_again(run) as federation:
        with counted_tasks() as done:
            found = audit(federation, file_of(tmp_path))
        again = audit(federation, "run")
    assert [task for task in done if task[0] == "fit"] == []  # the rehearsal's oracles
    evidence = found.evidence
    json.dumps([evidence, found.clients], allow_nan=False)
    assert evidence["kind"] == found.kind == "audit"
    rehearsed = json.loads(tables(run)["audits"][0]["evidence"])
    known = {(row["surface"], row["attack"]): row for row in rehearsed["tests"]}
    assert {row["surface"] for row in evidence["tests"]} == {"remaining", "worst", "probe"}
    for row in evidence["tests"]:
        old = known[row["surface"], row["attack"]]
        assert row["figures"] == {**old["figures"], "untouched": None}
        assert row["untouched_difference"] is row["reduction"] is None
    assert evidence["hashes"] == rehearsed["hashes"]
    assert evidence["tests"] == again.evidence["tests"]
    gone = {s["name"]: s["reason"] for s in evidence["surfaces"] if not s["available"]}
    assert gone["stale"] == "the target's personal part was erased with the removal"
    limits = " ".join(evidence["verdict"]["limits"])
    assert "the stale head (the target's personal part was erased" in limits
    assert "Without the model before the removal" in limits
    assert "trained on after" not in limits
    assert evidence["relearn"] is None
    assert {row["name"] for row in evidence["controls"]} == {
        *("held-out oracle 1", "held-out oracle 2")
    }
    assert list(found.clients) == ["c0", "c2", "c3"]
    assert evidence["cost"]["rehearsal_cpu_seconds"] > 0
    assert read_material(run)["applies"] == {"holds": True, "differences": []}


def test_after_training_on_the_limit_says_so_and_oracles_go_on(run, tmp_path):
    with deep_again(run) as federation:
        federation.train(3)
        found = audit(federation, file_of(tmp_path))
    assert any("was trained on after the removal" in x for x in found.evidence["verdict"]["limits"])
    assert found.evidence["rounds"] == 3
    assert [oracle["cached"] for oracle in found.evidence["oracles"]] == [False, False]
    assert found.evidence["hashes"]["shared_after"] != tables(run)["requests"][0]["outcome"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x_train": None}, "lacks x_train"),
        ({"y_test": None}, "lacks y_test"),
        ({"x_train": np.zeros((24, 5), np.float32)}, "have the shape \\(5,\\), those of this run"),
        ({"x_test": np.zeros((12, 4, 4), np.float32)}, "have the shape \\(4, 4\\)"),
        ({"y_train": np.zeros(7, np.int64)}, "one row for each of the 7 labels"),
        ({"y_train": np.full(24, 3)}, "have the label 3, but the model of this run knows 3"),
        ({"x_test": np.zeros((0, 4), np.float32), "y_test": np.zeros(0, np.int64)}, "empty part"),
        (
            {"x_test": np.zeros((3, 4), np.float32), "y_test": np.zeros(3, np.int64)},
            "3 test samples",
        ),
        ({"x_test": np.full((12, 4), np.nan, np.float32)}, "NaN"),
    ],
    ids=str,
)
def test_a_file_that_does_not_fit_is_refused_and_changes_nothing(
    changes, sentence, start, tmp_path
):
    before = everything(start)
    with deep_again(start) as federation, pytest.raises(PfedulError, match=sentence):
        audit(federation, file_of(tmp_path, **changes))
    assert everything(start) == before


def test_what_is_not_there_is_refused(start, tmp_path):
    with deep_again(start) as federation:
        with pytest.raises(PfedulError, match="There is no file"):
            audit(federation, str(tmp_path / "nothing.npz"))
        with pytest.raises(PfedulError, match="No removal with the number 7"):
            audit(federation, "run", request=7)
        with pytest.raises(PfedulError, match=f"--target-data {TARGET}=FILE"):
            audit(federation, f"c9={file_of(tmp_path)}")
        (tmp_path / "text.npz").write_text("no archive")
        with pytest.raises(PfedulError, match=r"not an \.npz file"):
            audit(federation, str(tmp_path / "text.npz"))
    data = client_data(CLIENTS)
    del data[TARGET]
    with (
        deep_again(start, data=data) as federation,
        pytest.raises(PfedulError, match="has no samples of 'c1' any more"),
    ):
        audit(federation, "run")


def test_who_came_back_cannot_be_audited_any_more(run, tmp_path):
    """Oracles would be trained with it, and the run is."""
    with deep_again(run) as federation:
        federation.admit(TARGET, again=True)
        with pytest.raises(PfedulError, match="'c1' was admitted again"):
            audit(federation, file_of(tmp_path))


def test_several_targets_are_brought_by_name_and_an_older_removal_by_number(run, tmp_path):
    files = [f"{client}={file_of(tmp_path, client)}" for client in ("c3", "c0")]
    with deep_again(run) as federation:
        federation.admit(TARGET, again=True)
        federation.forget("c0", "c3", **STRONG)
        with pytest.raises(PfedulError, match="--target-data c3=FILE"):
            audit(federation, files[1])
        found = audit(federation, *files, oracles=1)
        assert found.targets == ("c0", "c3")
        assert found.evidence["samples"]["members"] == 50
        assert found.evidence["verdict"]["verdict"] == "not enough evidence"
        with pytest.raises(PfedulError, match="'c1' was admitted again"):
            audit(federation, file_of(tmp_path), request=1)


@pytest.mark.parametrize(
    ("rounds", "sentence"),
    [
        ((0, 0), "The run was changed by request 2 after the removal"),
        ((1, 0), "The run was trained on and changed by request 2 after the removal"),
        ((0, 1), "The run was trained on and changed by request 2 after the removal"),
    ],
)
def test_an_older_removal_is_audited_and_the_newer_one_is_named(rounds, sentence, run, tmp_path):
    """Training is blamed only if there was any, before the second removal or after it."""
    with deep_again(run) as federation:
        federation.train(2 + rounds[0])
        federation.forget("c3", **STRONG)
        federation.train(2 + sum(rounds))
        found = audit(federation, file_of(tmp_path), request=1)
        newest = audit(federation, file_of(tmp_path, "c3"))
    limits = found.evidence["verdict"]["limits"]
    assert [limit for limit in limits if "after the removal" in limit] == [
        f"{sentence}: this is about its tensors now, not about those of the removal."
    ]
    assert found.targets == (TARGET,)
    assert list(found.clients) == ["c0", "c2"]
    assert [row["name"] for row in found.evidence["oracles"]] == ["oracle 1", "oracle 2"]
    assert found.evidence["hashes"]["shared_after"] == newest.evidence["hashes"]["shared_after"]
    named = [x for x in newest.evidence["verdict"]["limits"] if "after the removal" in x]
    assert bool(named) == bool(rounds[1])


def test_nobody_is_left_of_those_who_were_there_at_the_removal(run, tmp_path):
    """All who stayed then have been forgotten since: no accuracy before is known."""
    with deep_again(run, data={**client_data(CLIENTS), "c8": client_data(9)["c8"]}) as federation:
        federation.admit("c8")
        federation.forget("c0", "c2", "c3", **STRONG, allow_unchanged=True)
        federation.train(3)
        found = audit(federation, file_of(tmp_path), request=1, oracles=1)
    assert found.evidence["preservation"]["oracle"] == {"assigned": 1.0, "pps": None, "cfi": None}
    assert list(found.clients) == ["c8"]
