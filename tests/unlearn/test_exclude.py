"""The correction `exclude`: nothing that the targets sent is left in the shared parameters."""

from dataclasses import replace

import pytest
import torch

from helpers.crafted import play_crafted
from helpers.forgetting_kill import TARGET, copied, deep, deep_again, trained
from helpers.toys import tensor_digests
from pfedul import PfedulError
from pfedul.client import perform, scratch_of
from pfedul.personalization import PERSONALIZATIONS
from pfedul.protocol import Task
from pfedul.records.contributions import without
from pfedul.unlearn.options import USUAL_ROUNDS, ForgetOptions, usual_rounds

NAMES = [entry.name for entry in PERSONALIZATIONS]
BOTH = {"record": "fisher+contributions"}
EXCLUDE = {"correction": "exclude", "repair_rounds": 0}
"""The correction alone; by default repair rounds follow."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exclude")
    return {name: trained(folder / name, personalization=name, **BOTH) for name in NAMES}


@pytest.fixture
def opened(runs, tmp_path):
    """Opens a copy of a run; all are closed at the end."""
    made = []

    def get(name="fedper"):
        made.append(deep_again(copied(runs[name], tmp_path / f"{name}-{len(made)}")))
        return made[-1]

    yield get
    for federation in made:
        federation.close()


def parameters(run):
    return {name: run.shared[name] for name in run.bench.split.parameters}


@pytest.mark.parametrize("name", NAMES)
def test_the_shared_parameters_are_those_without_the_target(name, opened):
    run = opened(name)
    expected = without(run.store, run.clients, [TARGET])
    outcome = run.forget(TARGET, **EXCLUDE)
    for key, tensor in parameters(run).items():
        assert torch.equal(tensor, expected[key].float())
    assert "direct influence of the targets is zero" in outcome.notes[0]
    assert "Not covered" in outcome.notes[0]


def test_a_mean_factor_is_said_where_the_targets_weights_differed_between_rounds(opened, tmp_path):
    run = trained(tmp_path / "half", participation=0.5, rounds=6, **BOTH)
    with deep_again(run) as half:
        notes = half.plan(TARGET).notes
    assert any("the targets' number of samples still plays a part" in note for note in notes)
    assert not any("number of samples" in note for note in opened().plan(TARGET).notes)


@pytest.mark.parametrize(
    ("options", "rounds", "words"),
    [
        ({}, 4, "does not hold of the repaired ones"),
        ({"repair": "ordinary", "repair_rounds": 1}, 1, "are still a function of the initial"),
        ({"repair_rounds": 0}, 0, ""),
        ({"correction": "reset"}, 0, ""),
        ({"correction": "reset", "repair": "ordinary", "repair_rounds": 2}, 2, "own data"),
    ],
)
def test_a_plan_says_which_repair_rounds_follow_and_what_they_end(options, rounds, words, opened):
    run = opened()
    last = ["", *run.plan(TARGET, **options).notes][-1]
    assert last.startswith("then ") == bool(rounds)
    if rounds:
        kind = options.get("repair", "distil")
        assert f"{rounds} {kind} repair round" in last
        assert words in last
        assert last.removeprefix("then ") in run.forget(TARGET, **options).notes


def test_by_default_distilled_repair_rounds_follow_more_of_them_for_a_larger_share(opened):
    plain, told, alone = opened(), opened(), opened()
    sizes = {name: member.train_samples for name, member in plain.members.items()}
    rounds = usual_rounds(sizes[TARGET] / sum(sizes.values()))
    assert rounds > USUAL_ROUNDS
    outcome = plain.forget(TARGET)
    told.forget(TARGET, correction="exclude", repair_rounds=rounds, repair="distil")
    alone.forget(TARGET, **EXCLUDE)
    assert tensor_digests(plain.store.path) == tensor_digests(told.store.path)
    assert tensor_digests(plain.store.path) != tensor_digests(alone.store.path)
    assert outcome.rounds == outcome.options["repair_rounds"] == rounds
    assert outcome.options["recalibration_epochs"] is None
    assert f"{rounds} distil repair rounds" in outcome.notes[1]


@pytest.mark.parametrize("name", NAMES)
def test_where_clients_share_the_head_twice_as_many_rounds_follow(name, opened):
    run = opened(name)
    sizes = {client: member.train_samples for client, member in run.members.items()}
    rounds = usual_rounds(sizes[TARGET] / sum(sizes.values()))
    twice = name in {"fedavg", "fedbn"}
    assert f"then {rounds * (1 + twice)} distil repair rounds" in run.plan(TARGET).notes[-1]


def test_half_strength_is_half_way_and_says_what_it_costs(opened):
    run = opened()
    before, without_it = parameters(run), without(run.store, run.clients, [TARGET])
    outcome = run.forget(TARGET, **EXCLUDE, strength=0.5)
    for key, tensor in parameters(run).items():
        middle = (before[key].double() + without_it[key]) / 2
        torch.testing.assert_close(tensor.double(), middle, rtol=1e-6, atol=1e-7)
    assert "the record of contributions ends" in outcome.notes[0]


def test_one_after_the_other_is_both_at_once(opened):
    one, two = opened(), opened()
    one.forget(TARGET, **EXCLUDE)
    one.forget("c2", **EXCLUDE)
    two.forget(TARGET, "c2", **EXCLUDE)
    for key, tensor in parameters(one).items():
        torch.testing.assert_close(tensor, parameters(two)[key], rtol=1e-5, atol=1e-6)


def test_personal_parts_are_fitted_to_the_statistics_they_are_used_with(opened):
    """Heads must not be fitted to statistics of their own client when a mean is served."""
    run = opened()
    old = {client: run.personal(client) for client in run.clients}
    run.forget(TARGET, **EXCLUDE, recalibration_epochs=2)
    task = Task("recalibrate", 1)
    for client in run.clients:
        scratch = scratch_of(run.bench)
        again = perform(run.bench, scratch, task, client, run.shared, old[client]).personal
        for name, tensor in run.personal(client).items():
            assert torch.equal(tensor, again[name])


def test_a_decoy_steers_the_choice_of_layers_but_not_the_exclusion(tmp_path):
    """Large noise of alternating sign in one layer draws all scores there, away from the poison."""
    folders = [tmp_path / "honest", tmp_path / "decoy"]
    honest, decoy = (_poisoned(folder, folder.name == "decoy") for folder in folders)
    with honest, decoy:
        assert decoy.plan(TARGET, correction="paper").selected == ("one",)
        shared = [run.plan(TARGET, **EXCLUDE).apply(run.shared) for run in (honest, decoy)]
        for name in honest.bench.split.parameters:
            torch.testing.assert_close(shared[0][name], shared[1][name], rtol=1e-4, atol=1e-5)


def _poisoned(folder, decoy):
    """The target drives layer three; as a decoy it also shakes layer one."""

    def craft(client, name, drawn):
        if client != TARGET:
            return drawn
        if name.startswith("three"):
            return torch.full_like(drawn, 0.05)
        return drawn * 20 if decoy and name.startswith("one") else drawn * 0

    run = deep(folder, **BOTH)
    play_crafted(run, 4, craft)
    return run


def test_of_chosen_layers_only_these_are_corrected_and_the_record_ends(opened):
    run, paper = opened(), opened().plan(TARGET, correction="paper")
    before, expected = parameters(run), without(run.store, run.clients, [TARGET])
    outcome = run.forget(TARGET, **EXCLUDE, layers="high")
    chosen = {name for row in paper.layers if row.selected for name in row.tensors}
    assert chosen
    assert chosen < before.keys()
    for key, tensor in parameters(run).items():
        assert torch.equal(tensor, expected[key].float() if key in chosen else before[key])
    assert "the record of contributions ends" in outcome.notes[0]
    assert not run.store.names("records/contributions")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"scores": "uniform"}, "--scores decides nothing"),
        ({"alpha": 1.0}, "--alpha decides nothing"),
        ({"clip": 0.1}, "The correction 'exclude' has no --clip"),
        ({"strength": 0}, "--strength must be above 0"),
        ({"strength": 1.5}, "--strength must be"),
    ],
)
def test_what_means_nothing_to_it_is_refused(opened, options, sentence):
    with pytest.raises(PfedulError, match=sentence):
        opened().plan(TARGET, **EXCLUDE, **options)


def test_the_threshold_of_the_picture_is_the_usual_one(opened):
    run = opened()
    plans = [run.plan(TARGET, **EXCLUDE), run.plan(TARGET, correction="paper")]
    assert plans[0].threshold == pytest.approx(plans[1].threshold, rel=1e-5)
    scores = [[layer.score for layer in plan.layers] for plan in plans]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_a_run_without_the_record_says_what_to_do(tmp_path):
    run = trained(tmp_path / "run", record="fisher")
    for advised in ({"method": "retrain"}, {"correction": "reset"}, {"correction": "paper"}):
        with deep_again(copied(run, tmp_path / "-".join(advised.values()))) as federation:
            for refusing in (federation.forget, federation.plan):
                with pytest.raises(PfedulError) as refusal:
                    refusing(TARGET)
                assert str(refusal.value) == WITHOUT_RECORD
            assert federation.forget(TARGET, **advised).targets == (TARGET,)


WITHOUT_RECORD = (
    "This run keeps no contributions record, which the correction 'exclude' needs; give --method "
    "retrain, --correction trust-region, --correction reset, --correction paper, or another method "
    "whose records this run keeps ('pfedul methods'), or train a new run with "
    "--record contributions."
)


def test_a_run_without_the_fisher_record_is_told_of_the_correction_that_needs_none(tmp_path):
    with deep_again(trained(tmp_path / "run", record="contributions")) as federation:
        with pytest.raises(PfedulError, match="keeps no Fisher record") as refusal:
            federation.forget(TARGET, correction="paper")
        assert "retrain, --correction exclude, or another method" in str(refusal.value)


def test_a_run_without_any_record_is_told_of_no_correction(tmp_path):
    with deep_again(trained(tmp_path / "run", record="none")) as federation:
        with pytest.raises(PfedulError, match="give --method retrain, or another") as refusal:
            federation.forget(TARGET)
        assert "--correction" not in str(refusal.value)


def test_without_a_fisher_record_scores_are_shares_of_the_contributions(tmp_path):
    run = trained(tmp_path / "run", record="contributions")
    with deep_again(run) as federation:
        plan = federation.plan(TARGET, **EXCLUDE)
        assert any("no Fisher record" in note for note in plan.notes)
        scores = [federation.plan(c, **EXCLUDE).layers[0].score for c in federation.clients]
        assert sum(scores) == pytest.approx(1.0)


def test_an_earlier_removal_of_another_kind_is_said(opened):
    run = opened()
    run.forget("c3", correction="paper")
    with pytest.raises(PfedulError, match="was deleted with an earlier request") as refusal:
        run.forget(TARGET, **EXCLUDE)
    assert "train on to build a new one, or give --method retrain, " in str(refusal.value)
    assert "--correction paper" in str(refusal.value)
    run.train(run.rounds + 1)
    notes = run.forget(TARGET, **EXCLUDE).notes
    assert any(f"after round {run.rounds - 1}" in note for note in notes)


def test_statistics_are_those_of_the_remaining_clients(opened):
    """The target's part in the running statistics goes, too: they are estimated again."""
    one, two = opened(), opened()
    spoilt = {name: t * 3 if "running" in name else t for name, t in two.shared.items()}
    two.shared = spoilt
    for run in (one, two):
        run.forget(TARGET, **EXCLUDE)
    assert all(torch.equal(one.shared[name], two.shared[name]) for name in one.shared)


def test_options_say_whether_it_excludes():
    full = ForgetOptions(correction="exclude")
    assert full.excludes
    assert not replace(full, strength=0.9).excludes
    assert not replace(full, layers="high").excludes
    assert replace(full, layers="all").excludes
    assert not ForgetOptions(correction="reset").excludes
    assert not ForgetOptions(method="none").excludes


@pytest.mark.parametrize(
    ("options", "epochs"),
    [
        ({"correction": "exclude"}, None),
        ({"correction": "exclude", "recalibration_epochs": 3}, 3),
        ({"correction": "paper"}, 2),
        ({"correction": "paper", "repair_rounds": 1}, None),
        ({"method": "federaser", "recalibrate": True}, None),
    ],
)
def test_recalibration_is_thorough_with_it_unless_epochs_are_given(options, epochs):
    chosen = ForgetOptions(**options)
    assert chosen.recalibration().epochs == epochs
    assert chosen.as_json()["recalibration_epochs"] == epochs
