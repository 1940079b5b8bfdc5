"""Retraining and budgeted retraining: what they end with, and what they say it cost."""

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from helpers.clock import priced, stopped
from helpers.forgetting_kill import CLIENTS, TARGET, Deep, copied, deep, deep_again, trained
from helpers.told import AtStage
from helpers.toys import QUICK, client_data, norm_job, one_sample_job, tensor_digests
from pfedul import Federation
from pfedul.audit.models import trained_oracles
from pfedul.base.tensors import size_in_bytes
from pfedul.client import ACTIONS
from pfedul.errors import MethodFailed, PfedulError
from pfedul.personalization import PERSONALIZATIONS, Recalibration
from pfedul.personalization.local import batches
from pfedul.protocol import Task
from pfedul.run.retrained import oracle_recipes
from pfedul.run.training import play_round
from pfedul.server.round import MeanOverflows
from pfedul.store.ledger import Ledger
from pfedul.unlearn.erasure import files_to_erase
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.methods.budgeted import MeasuredRound, Prices, fitted_prices
from pfedul.unlearn.methods.retrain import as_failure_of
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import StageCost, spent_by_method

REMAINING = ["c0", "c2", "c3"]


def without_target(run, **settings):
    """The federation that the remaining clients would have made by themselves."""
    data = {name: parts for name, parts in client_data(CLIENTS).items() if name != TARGET}
    chosen = {"data": data, "model": Deep, **QUICK, **settings}
    return Federation.create(run, **chosen)


@pytest.mark.parametrize("personalization", ["fedavg", "fedper", "ditto"])
def test_retraining_is_the_federation_that_the_target_was_never_in(personalization, tmp_path):
    run = trained(tmp_path / "run", personalization=personalization, record="none")
    with deep_again(run) as federation:
        federation.forget(TARGET, method="retrain")
    with without_target(tmp_path / "alone", personalization=personalization) as alone:
        alone.train()
    assert tensor_digests(run) == {
        file: sha
        for file, sha in tensor_digests(tmp_path / "alone").items()
        if not file.startswith("records")
    }


def test_retraining_counts_its_rounds_and_bytes_and_keeps_to_the_rounds_asked_for(tmp_path):
    with deep(tmp_path / "run") as federation:
        federation.train()
        size = size_in_bytes(federation.shared)
        outcome = federation.forget(TARGET, method="retrain:rounds=2")
    assert outcome.rounds == 2
    assert outcome.bytes_broadcast == outcome.bytes_uploaded == 2 * size * len(REMAINING)
    assert any("records were of the training that is replaced" in note for note in outcome.notes)
    with without_target(tmp_path / "alone", rounds=2) as alone:
        alone.train()
    shared = [tensor_digests(tmp_path / run)["shared.safetensors"] for run in ("run", "alone")]
    assert shared[0] == shared[1]


def test_a_seed_of_its_own_starts_from_other_weights(tmp_path):
    run = trained(tmp_path / "run", record="none")
    with deep_again(run) as federation:
        federation.forget(TARGET, method="retrain", seed=5)
    with without_target(tmp_path / "alone", seed=5) as alone:
        alone.train()
    ours, theirs = tensor_digests(run), tensor_digests(tmp_path / "alone")
    for file in ("shared.safetensors", "init.safetensors"):
        assert ours[file] == theirs[file]


@pytest.mark.parametrize("method", ["retrain", "budgeted-retrain:rounds=1"])
def test_records_of_a_training_that_is_replaced_are_no_longer_there(method, tmp_path):
    run = trained(tmp_path / "run", record="all")
    with deep_again(run) as federation:
        federation.forget("c0", forget_records="all")
        federation.train(4)
        assert (run / "records/fisher-retained.safetensors").exists()
        wish = ForgetOptions(method=method)
        obsolete = [
            n for n in files_to_erase(federation, [TARGET], wish) if n.startswith("records/")
        ]
        federation.forget(TARGET, method=method)
        assert not (run / "records").exists()
        assert {name.split("/")[1] for name in obsolete} >= {"fisher", "norms", "psi", "sums"}
        for later in ("pfedul", "federaser", "fedrecovery", "sifu", "exclusion"):
            with pytest.raises(PfedulError, match=r"(erased|deleted) with an earlier request"):
                federation.forget("c2", method=later)
        federation.train(5)
        (new,) = federation.store.ledger.rows("SELECT * FROM rounds WHERE round = 5")
        assert new["replies"] == 2
        assert sorted(federation.scores()) == ["c2", "c3"]
        federation.forget("c2")


def test_recalibration_after_retraining_starts_from_the_new_personal_parts(tmp_path):
    run = trained(tmp_path / "run", record="none")
    other = copied(run, tmp_path / "other")
    with deep_again(run) as federation:
        federation.forget(TARGET, method="retrain", recalibrate=True, recalibration_epochs=2)
        found = federation.personal("c0")
    with deep_again(other) as federation:
        federation.forget(TARGET, method="retrain")
        task = Task("recalibrate", 1, recalibration=Recalibration())
        asked = task, ["c0"], federation.shared, federation.locate_personal
        (reply,) = federation.engine.run(*asked)
    for name, tensor in reply.personal.items():
        assert torch.equal(tensor, found[name])


def test_a_killed_retraining_goes_on_and_counts_what_was_spent_before(tmp_path, monkeypatch):
    run = trained(tmp_path / "run", rounds=5, record="none")
    killed = tmp_path / "killed"

    def told(stage, done, _of):
        if stage == "retraining" and done == 4 * len(REMAINING) and not killed.exists():
            copied(run, killed)  # what a kill at this moment would leave on disk

    with deep_again(run) as federation:
        federation.forget(TARGET, method="retrain", callbacks=[AtStage(told)])
    (rounds,) = killed.glob("unlearning/*/retrained/ledger.db")
    with closing(Ledger(rounds)) as ledger:
        ledger.write([("UPDATE rounds SET cpu_seconds = 100, seconds = 200", ())])
        done = ledger.value("SELECT COUNT(*) FROM rounds")
    begun = []
    stopped(monkeypatch)
    with deep_again(killed) as federation:
        outcome = federation.forget(
            TARGET,
            method="retrain",
            callbacks=[AtStage(lambda stage, done, _of: begun.append((stage, done)))],
        )
    steps = [done for stage, done in begun if stage == "retraining"]
    assert 2 <= done < 5
    assert min(steps) > done * len(REMAINING), "the rounds before the kill were not done again"
    assert outcome.rounds == 5
    cost = outcome.stages["unlearning"]
    assert (cost.cpu_seconds, cost.seconds) == (100 * done, 200 * done)
    assert tensor_digests(run) == tensor_digests(killed)


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_cpu_seconds_of_retraining_are_those_of_its_clients(engine, tmp_path, monkeypatch):
    run = trained(tmp_path / "run", rounds=3, record="none")
    with deep_again(run, engine=engine) as federation:
        usual = federation.engine.run
        if engine == "inline":
            priced(monkeypatch, client_seconds=5, batch_seconds=0)
        else:
            stopped(monkeypatch)

            def slow(*asked):
                for reply in usual(*asked):
                    yield replace(reply, cpu_seconds=5)

            monkeypatch.setattr(federation.engine, "run", slow)
        outcome = federation.forget(TARGET, method="retrain")
    assert outcome.stages["unlearning"].cpu_seconds == 3 * len(REMAINING) * 5


def watched(monkeypatch, action, change=lambda reply: reply):
    """Who is asked for an action, from now on; `change` is done to their replies."""
    asked, usual = [], ACTIONS[action]

    def do(bench, task, job):
        asked.append(job.client)
        return change(usual(bench, task, job))

    monkeypatch.setitem(ACTIONS, action, do)
    return asked


@pytest.mark.parametrize("method", ["retrain", "budgeted-retrain:rounds=1"])
def test_nobody_is_evaluated_as_a_part_of_retraining(method, tmp_path, monkeypatch):
    run = trained(tmp_path / "run", evaluate_every=1)
    asked = watched(monkeypatch, "evaluate")
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method=method)
    assert asked == REMAINING, "once, after it: accuracies of before were known"
    assert sorted(outcome.after) == REMAINING


def test_accuracies_of_oracles_are_measured_though_training_does_not(tmp_path, monkeypatch):
    run = trained(tmp_path / "run")
    asked = watched(monkeypatch, "evaluate")
    with deep_again(run) as federation:
        recipes = oracle_recipes(federation, [TARGET], 1)
        (oracle,) = trained_oracles(federation, [TARGET], recipes, lambda *_: None)
    assert asked == sorted(oracle.accuracies) == REMAINING


@pytest.mark.parametrize("method", ["retrain", "budgeted-retrain:rounds=2"])
def test_whose_replies_were_refused_in_retraining_is_said(method, tmp_path, monkeypatch):
    run = trained(tmp_path / "run", record="none")
    watched(
        monkeypatch,
        "fit",
        lambda reply: replace(reply, samples=1) if reply.client == "c2" else reply,
    )
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method=method)
    assert [note for note in outcome.notes if note.startswith("replies of 1 client were refused")]


@pytest.mark.parametrize("method", ["retrain", "budgeted-retrain:rounds=2"])
def test_replies_that_cannot_be_used_are_not_called_divergence(method, tmp_path, monkeypatch):
    run = trained(tmp_path / "run", record="none")
    watched(monkeypatch, "fit", lambda reply: replace(reply, samples=1))
    with deep_again(run) as federation, pytest.raises(MethodFailed, match="too few usable") as why:
        federation.forget(TARGET, method=method)
    assert f"'{method.partition(':')[0]}' had" in str(why.value)
    assert "reports 1 samples" in str(why.value)


def test_a_mean_that_overflows_is_divergence():
    work = SimpleNamespace(name="retrain")
    with pytest.raises(MethodFailed, match="'retrain' diverged in round 3"), as_failure_of(work):
        raise MeanOverflows(3)


# Budgeted


def test_so_many_rounds_and_batches_are_those_of_a_federation_without_the_target(tmp_path):
    run = trained(tmp_path / "run", record="none", local_epochs=2)
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method="budgeted-retrain:rounds=1,steps=2")
    with without_target(tmp_path / "alone", local_epochs=2) as alone:
        play_round(alone, REMAINING, epochs=1)
        play_round(alone, REMAINING, epochs=1, steps=2)
        for name, tensor in alone.shared.items():
            assert torch.equal(deep_shared(run)[name], tensor)
    assert outcome.rounds == 2
    assert "1 rounds of an epoch and 1 of fewer batches, 15 batches in all" in outcome.notes[0]


def deep_shared(run):
    with deep_again(run) as federation:
        return federation.shared


@pytest.mark.parametrize(
    ("seconds", "whole", "short", "used"),
    [(20, 2, 1, 19.5), (15.5, 2, 0, 15), (7, 0, 1, 6), (8, 1, 0, 7.5)],
)
def test_a_budget_is_kept_to_and_accounted_for(seconds, whole, short, used, tmp_path, monkeypatch):
    """A client takes 1 s and 0.5 s for each of its 3 batches, so a round takes 7.5 s."""
    run = trained(tmp_path / "run", record="none", rounds=4)
    priced(monkeypatch)
    with deep_again(run) as federation:
        spec = f"budgeted-retrain:cpu_seconds={seconds}"
        outcome = federation.forget(TARGET, method=spec)
    note = f"a budget of {seconds} CPU seconds (1 x {seconds}), of which {used:g} were used: "
    assert outcome.notes[0].startswith(
        f"{note}{whole} rounds of an epoch and {short} of fewer batches"
    )
    assert outcome.stages["unlearning"].cpu_seconds == used
    assert outcome.rounds == whole + short


def test_trying_out_what_batches_cost_leaves_nothing(tmp_path, monkeypatch):
    run = trained(tmp_path / "run", record="none")
    copy = copied(run, tmp_path / "copy")
    priced(monkeypatch)
    for place, spec in ((run, "cpu_seconds=20"), (copy, "rounds=2,steps=1")):
        with deep_again(place) as federation:
            federation.forget(TARGET, method=f"budgeted-retrain:{spec}")
    assert tensor_digests(run) == tensor_digests(copy)


def test_a_budget_below_one_batch_trains_nothing(tmp_path):
    run = trained(tmp_path / "run", record="none")
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method="budgeted-retrain:cpu_seconds=1e-7")
    found = tensor_digests(run)
    assert outcome.rounds == 0
    assert found["shared.safetensors"] == found["init.safetensors"]


def test_the_budget_is_what_pfedul_takes_here(tmp_path, monkeypatch):
    """Without measuring what it did to accuracies: that is no part of what it costs."""
    run = trained(tmp_path / "run", local_epochs=1)
    copy = copied(run, tmp_path / "copy")
    priced(monkeypatch, recalibration=2, measuring=1)
    with deep_again(run) as federation:
        stages = federation.forget(TARGET).stages
    assert stages["recalibration"] == StageCost(6, 6)
    assert stages["evaluation"] == StageCost(3, 3)
    assert spent_by_method(stages).cpu_seconds == 6
    with deep_again(copy) as federation:
        note = federation.forget(TARGET, method="budgeted-retrain:times=2").notes[0]
    assert note.startswith("a budget of 12 CPU seconds (2 x 6), of which 12 were used")


def test_without_a_record_a_budget_must_be_given(tmp_path):
    run = trained(tmp_path / "run", record="none")
    before = tensor_digests(run)
    with (
        deep_again(run) as federation,
        pytest.raises(PfedulError, match=r"--record fisher; or give the budget") as why,
    ):
        federation.forget(TARGET, method="budgeted-retrain")
    assert "cpu_seconds=" in str(why.value)
    assert tensor_digests(run) == before
    assert "the record fisher" in METHODS["budgeted-retrain"].about.memory


@pytest.mark.parametrize("spec", ["times=0", "cpu_seconds=0", "rounds=-1", "rounds=1,times=2"])
def test_budgets_without_sense_are_refused(spec, tmp_path):
    with deep(tmp_path / "run") as federation, pytest.raises(PfedulError, match="was refused"):
        federation.forget(TARGET, method=f"budgeted-retrain:{spec}")


def test_as_many_batches_fit_as_an_exhaustive_search_finds():
    sizes, prices = [3, 7, 1, 4], Prices(client=0, batch=1, whole=1)
    for fit in range(18):
        fitting = [s for s in range(8) if sum(min(size, s) for size in sizes) <= fit]
        assert prices.most_steps(sizes, fit) == max(fitting)


def test_prices_are_found_again_in_rounds_of_any_size():
    true = Prices(client=0.3, batch=0.02, whole=0.05)
    rounds = [(1, 1), (3, 9), (9, 40)]
    seen = [MeasuredRound(n, m, False, true.client * n + true.batch * m) for n, m in rounds]
    seen += [MeasuredRound(n, m, True, true.client * n + true.whole * m) for n, m in rounds]
    found = fitted_prices(seen)
    assert (found.client, found.batch, found.whole) == pytest.approx((0.3, 0.02, 0.05))


@pytest.mark.parametrize(
    "seen", [[MeasuredRound(2, 2, False, 4.0)], [MeasuredRound(1, 9, False, 1.0)] * 2]
)
def test_prices_of_few_rounds_are_not_below_zero(seen):
    found = fitted_prices(seen)
    assert min(found.client, found.batch, found.whole) >= 0
    assert found.of_round([1, 1], 1) > 0


def test_of_few_batches_no_features_are_computed_that_are_not_used(monkeypatch):
    job = norm_job("fedrep", epochs=1, steps=1)
    seen, usual = [], type(job.model).forward
    monkeypatch.setattr(
        type(job.model), "forward", lambda model, x: (seen.append(len(x)), usual(model, x))[1]
    )
    PERSONALIZATIONS["fedrep"].fit(job)
    assert sum(seen) == 2 * 8, "a batch of the head and one of the body"


def test_steps_end_local_training_after_so_many_batches():
    torch.manual_seed(0)
    assert [len(list(batches(10, 3, 2, steps))) for steps in (None, 0, 2, 5, 99)] == [6, 0, 2, 5, 6]


@pytest.mark.parametrize("name", ["fedavg", "fedrep"])
def test_one_step_of_two_epochs_is_one_epoch_of_one_batch(name):
    entry, options = PERSONALIZATIONS.parse(name)
    limited = entry.fit(one_sample_job(entry, options, epochs=2, steps=1))
    short = entry.fit(one_sample_job(entry, options, epochs=1))
    longer = entry.fit(one_sample_job(entry, options, epochs=2))
    for part in ("shared", "personal"):
        for key, tensor in getattr(short, part).items():
            assert torch.equal(tensor, getattr(limited, part)[key])
            assert not torch.equal(tensor, getattr(longer, part)[key])
