"""The strict level, its twins, and the controls that are made of the run itself."""

import json

import pytest
import torch

from helpers.auditing import counted_tasks, failing, interrupt_at, rehearse, tables
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.toys import tensor_digests
from pfedul import PfedulError
from pfedul.audit.models import (
    fitted_heads,
    one_more_round,
    recalibrated_only,
    unlearned_twins,
    untouched_state,
)
from pfedul.run.retrained import twin_recipes
from pfedul.unlearn.options import ForgetOptions

STRICT = {"level": "strict", "oracles": 4, "correction": "trust-region:clip=0.3"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("strict") / "run", rounds=1)


@pytest.fixture(scope="module")
def strict(start, tmp_path_factory):
    """A strict rehearsal that was interrupted at its twins, asked for again, and its tasks."""
    run = copied(start, tmp_path_factory.mktemp("interrupted") / "run")
    with deep_again(run) as federation:
        recipes = twin_recipes(federation, 3)
        with pytest.raises(KeyboardInterrupt):
            rehearse(federation, TARGET, on_stage=interrupt_at("twins", 6), **STRICT)
        left = sorted(path.name for path in (run / "rehearsal").iterdir())
    with deep_again(run) as federation, counted_tasks() as done:
        audit = rehearse(federation, TARGET, **STRICT)
    return run, audit, recipes, left, done


def test_measures_of_many_models_are_there(strict):
    _, audit, _, _, _ = strict
    json.dumps(audit.evidence, allow_nan=False)
    rows = [row for row in audit.evidence["measures"] if row["attack"] not in _SINGLE]
    by_attack = {row["attack"] for row in rows}
    assert by_attack == {"ulira", "klom", "forgetting-quality"}
    for surface in ("remaining", "stale", "probe"):
        (ulira,) = [r for r in rows if (r["attack"], r["surface"]) == ("ulira", surface)]
        assert ulira["metric"] == "U-LiRA accuracy"
        assert 0 <= ulira["interval"][0] <= ulira["value"] <= ulira["interval"][1] <= 1
        assert ulira["best"] == 0.5
    klom = [row for row in rows if row["attack"] == "klom"]
    assert {row["samples"] for row in klom} == {"forget", "retain", "test"}
    assert {row["model"] for row in klom} == {"candidate", "one half of the oracles"}
    assert any("U-LiRA" in reason for reason in audit.evidence["verdict"]["reasons"])


_SINGLE = {"threshold", "logistic", "rmia"}


def test_twins_are_said_and_gone(strict):
    run, audit, recipes, _, _ = strict
    twins = audit.evidence["twins"]
    assert [twin["name"] for twin in twins] == ["twin 1", "twin 2", "twin 3"]
    assert [twin["seed"] for twin in twins] == [recipe.seed for recipe in recipes]
    assert [set(twin) for twin in twins] == [set(audit.evidence["oracles"][0])] * 3
    assert len({twin["shared_sha256"] for twin in twins}) == 3
    assert not (run / "rehearsal").exists()
    assert len(list((run / "oracles").iterdir())) == 4


def test_interrupted_it_goes_on_with_the_twins_that_are_there(strict):
    """One twin was whole and one half-way; oracles and the first twin are not trained again."""
    _, audit, recipes, left, done = strict
    assert recipes[0].folder.name in left
    assert [twin["cached"] for twin in audit.evidence["twins"]] == [True, False, False]
    assert [oracle["cached"] for oracle in audit.evidence["oracles"]] == [True] * 4
    trained_again = {seed for action, _, seed in done if action == "fit" and seed is not None}
    assert trained_again == {recipe.seed for recipe in recipes[1:]}


def test_twins_are_trained_with_everybody_and_keep_a_record(start, tmp_path):
    run = copied(start, tmp_path / "run")
    with deep_again(run) as federation:
        for recipe in twin_recipes(federation, 2):
            assert recipe.clients == ("c0", "c1", "c2", "c3")
            assert recipe.record == "fisher+contributions"
            assert recipe.folder.parent.name == "rehearsal"


def test_the_run_is_as_it_was(start, strict):
    run = strict[0]
    known = tensor_digests(start)
    assert {name: tensor_digests(run)[name] for name in known} == known
    before, after = tables(start), tables(run)
    for name in before:
        if not name.startswith(("audit", "chain")):
            assert before[name] == after[name]


def test_a_twin_is_a_plain_run_with_another_seed_that_forgets_as_the_run_will(start, tmp_path):
    options = {"correction": "trust-region:clip=0.3", "recalibration_epochs": 1}
    with deep_again(copied(start, tmp_path / "run")) as federation:
        recipes = twin_recipes(federation, 1)
        wish = ForgetOptions(**options)
        (twin,) = unlearned_twins(federation, recipes, [TARGET], wish, ["c0"], lambda *_: None)
    plain = trained(tmp_path / "plain", rounds=1, seed=recipes[0].seed)
    with deep_again(plain) as federation:
        kept = federation.personal(TARGET)
        federation.forget(TARGET, away=["c0"], **options)
        same(twin.state.shared, federation.shared)
        assert list(twin.state.personal) == federation.clients
        for client, tensors in twin.state.personal.items():
            same(tensors, federation.personal(client))
        same(twin.state.stale[TARGET], kept)


def same(one, two):
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


# Controls that are made of the run itself


@pytest.mark.parametrize("name", ["fedavg", "fedper", "ditto", "fedbn"])
def test_one_more_round_is_the_next_round_of_the_run(name, tmp_path):
    run = trained(tmp_path / "run", rounds=1, personalization=name)
    before = tensor_digests(run)
    with deep_again(run) as federation:
        found = one_more_round(federation, [TARGET])
        assert tensor_digests(run) == before
        federation.train(2)
        same(found.shared, federation.shared)
        assert list(found.personal) == ["c0", "c2", "c3"]
        for client, tensors in {**found.personal, **found.stale}.items():
            same(tensors, federation.personal(client))


def test_the_no_op_recalibrates_and_leaves_the_shared_tensors(start, tmp_path):
    with deep_again(copied(start, tmp_path / "run")) as federation:
        before = untouched_state(federation, [TARGET])
        after = recalibrated_only(federation, before, ForgetOptions(correction="reset"))
    same(before.shared, after.shared)
    same(before.stale[TARGET], after.stale[TARGET])
    assert list(after.personal) == ["c0", "c2", "c3"]
    for client, tensors in after.personal.items():
        assert not torch.equal(tensors["head.weight"], before.personal[client]["head.weight"])


def test_a_client_that_fails_to_recalibrate_ends_the_audit_with_a_sentence(start, tmp_path):
    """The control would be made of untouched models, and pass for one of recalibrated ones."""
    with deep_again(copied(start, tmp_path / "run"), engine="inline") as federation:
        before = untouched_state(federation, [TARGET])
        with (
            failing("recalibrate", "c2"),
            pytest.raises(PfedulError, match=r"'c2' could not recalibrate .*: its disk is full\."),
        ):
            recalibrated_only(federation, before, ForgetOptions())


def test_heads_are_fitted_by_the_engine_to_the_bits_of_a_single_process(start, tmp_path):
    """Two targets fit a head to shared tensors that never had them."""
    heads = {}
    for engine in ("inline", "processes"):
        run = copied(start, tmp_path / engine)
        with deep_again(run, engine=engine) as federation, counted_tasks() as done:
            shared = federation.shared
            heads[engine] = fitted_heads(federation, shared, [TARGET, "c2"], seed=7)
            own = federation.personal(TARGET)
        if engine == "inline":
            assert done == [("recalibrate", TARGET, 7), ("recalibrate", "c2", 7)]
    one, other = heads.values()
    assert list(one) == list(other) == [TARGET, "c2"]
    for client, part in one.items():
        assert part.keys() == own.keys()
        assert all(torch.equal(part[name], other[client][name]) for name in part)
    assert any(not torch.equal(one[TARGET][name], one["c2"][name]) for name in own)
