"""The record of contributions: theta = base + the sum of S_u, whatever happens to a run."""

import pytest
import torch

from helpers.crafted import play_crafted
from helpers.forgetting_kill import TARGET, copied, deep, deep_again, trained
from helpers.three_clients import POINTS, Pencil, federation
from helpers.told import AtStage
from helpers.toys import client_data
from pfedul.records.contributions import (
    BASE_FILE,
    began_after,
    contribution,
    rescaling,
    without,
)
from pfedul.unlearn.repair import Repair

BODY = "body.weight"
KEPT = {"record": "contributions"}
EXCLUDE = {"correction": "exclude"}


def assert_whole(run):
    """The identity of the record, to rounding."""
    base = run.store.read(BASE_FILE)
    for name in run.bench.split.parameters:
        total = base[name].double()
        for client in run.clients:
            own = contribution(run.store, client)
            total = total + (0 if own is None else own[name])
        torch.testing.assert_close(total.float(), run.shared[name], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("contributions") / "run", **KEPT)


@pytest.fixture
def fed(run, tmp_path):
    with deep_again(copied(run, tmp_path / "run")) as opened:
        yield opened


def test_sums_are_those_of_paper_and_pencil(tmp_path):
    pencil, copies = Pencil(3), {name: point[2] for name, point in POINTS.items()}
    with federation(tmp_path / "run", **KEPT) as run:
        run.train()
        for client in POINTS:
            steps = (pencil.uploads[n][client] - pencil.weights[n] for n in range(3))
            expected = sum(steps) * copies[client] / sum(copies.values())
            assert contribution(run.store, client)[BODY].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("room", [0, 3000])
def test_uploads_that_do_not_fit_into_memory_wait_on_disk(room, run, tmp_path, monkeypatch):
    """With room for none of the uploads, or for some of them."""
    monkeypatch.setattr("pfedul.records.recording.IN_MEMORY", room)
    with deep(tmp_path / "run", **KEPT, engine="inline") as small, deep_again(run) as usual:
        small.train()
        for client in usual.clients:
            one, other = (contribution(fed.store, client) for fed in (small, usual))
            assert all(torch.equal(one[name], other[name]) for name in other)
        assert not small.store.scratch.exists()


def test_without_the_target_is_what_the_others_updates_alone_would_have_given(tmp_path):
    pencil = Pencil(3)
    with federation(tmp_path / "run", **KEPT) as run:
        run.train()
        weights = {"ann": 2 / 5, "cat": 3 / 5}
        expected = 1.0 + sum(
            weight * (pencil.uploads[n][client] - pencil.weights[n])
            for n in range(3)
            for client, weight in weights.items()
        )
        assert without(run.store, run.clients, ["bob"])[BODY].item() == pytest.approx(expected)


@pytest.mark.parametrize(
    "settings",
    [{}, {"participation": 0.5, "rounds": 6}, {"personalization": "ditto"}],
    ids=["everybody", "sampled", "ditto"],
)
def test_it_holds_after_training_and_removals(settings, tmp_path):
    with deep(tmp_path / "run", **KEPT, **settings) as run:
        run.train()
        assert_whole(run)
        run.forget(TARGET, **EXCLUDE, repair_rounds=2, repair="distil")
        assert_whole(run)
        run.train(run.rounds + 1)
        assert_whole(run)
        run.forget("c2", **EXCLUDE)
        assert_whole(run)
        assert began_after(run.store) == 0


def test_it_holds_after_a_client_joins(fed):
    fed.forget(TARGET, **EXCLUDE)
    fed.close()
    with deep_again(fed.store.path, data=client_data(4)) as again:
        again.admit(TARGET, again=True)
        assert_whole(again)
        again.train(again.rounds + 2)
        assert_whole(again)
        assert contribution(again.store, TARGET) is not None


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("kind", ["ordinary", "distil"])
def test_it_holds_after_repair_that_was_interrupted(kind, done, fed):
    chosen = {**EXCLUDE, "repair_rounds": 3, "repair": kind, "away": ["c3"]}

    def interrupt(stage, count, _of):
        if (stage, count) == ("repair", done):
            raise KeyboardInterrupt

    before = fed.shared
    with pytest.raises(KeyboardInterrupt):
        fed.forget(TARGET, callbacks=[AtStage(interrupt)], **chosen)
    fed.forget(TARGET, **chosen)
    assert not torch.equal(fed.shared["two.weight"], before["two.weight"])
    assert_whole(fed)


def test_it_holds_for_a_client_that_has_only_taken_part_in_repair(fed):
    fed.close()
    with deep_again(fed.store.path, data=client_data(5)) as again:
        again.admit("c4")
        again.forget(TARGET, **EXCLUDE, repair_rounds=1)
        assert contribution(again.store, "c4") is not None
        assert_whole(again)
        again.forget("c2", **EXCLUDE)
        assert_whole(again)


def test_repair_adds_the_weighted_updates_of_its_rounds(fed, monkeypatch):
    """The sum of all that the record gained is what the rounds moved."""
    moved = []
    repaired = Repair.repaired

    def watched(repair, start):
        after = repaired(repair, start)
        moved.append({name: after[name] - start[name] for name in fed.bench.split.parameters})
        gained.update({client: repair.added(client) for client in repair.ctx.remaining})
        return after

    gained = {}
    monkeypatch.setattr(Repair, "repaired", watched)
    fed.forget(TARGET, **EXCLUDE, repair_rounds=2)
    for name, change in moved[0].items():
        total = sum(own[name] for own in gained.values())
        torch.testing.assert_close(total.float(), change, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "none", "allow_unchanged": True},
        {"correction": "exclude:strength=0.5"},
        {"correction": "exclude:strength=0.5", "repair_rounds": 1},
        {"forget_records": "all"},
        {"forget_records": "all", "repair_rounds": 1},
    ],
    ids=str,
)
def test_any_other_removal_ends_the_record_and_the_next_round_begins_it(fed, options):
    fed.forget(TARGET, **{**EXCLUDE, **options} if "method" not in options else options)
    assert not fed.store.names("records/contributions")
    rounds = fed.rounds
    fed.train(rounds + 1)
    assert began_after(fed.store) == rounds
    assert_whole(fed)


@pytest.mark.parametrize("factor", [-1.0, 0.0, 50.0])
def test_the_result_does_not_depend_on_what_the_target_sent(factor, tmp_path):
    """Every update of the target replaced by another, those of the others kept as they are."""
    honest = _without_target(tmp_path / "honest", 1.0)
    other = _without_target(tmp_path / "other", factor)
    for name, tensor in honest.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-4, atol=2e-5)


def _without_target(folder, factor):
    with deep(folder, **KEPT) as run:
        before = run.shared["two.weight"]
        play_crafted(run, 3, lambda client, _, drawn: drawn * (factor if client == TARGET else 1))
        own = contribution(run.store, TARGET)["two.weight"]
        assert own.norm() == pytest.approx(abs(factor) * 0.25, rel=0.5)  # what was sent did arrive
        assert not torch.equal(run.shared["two.weight"], before)
        return without(run.store, run.clients, [TARGET])


def test_factors_are_exact_where_the_targets_share_was_constant():
    rounds = [{"a": 1, "b": 2, "t": 3}] * 4
    assert rescaling(rounds, ["t"]) == {"a": pytest.approx(2.0), "b": pytest.approx(2.0)}


def test_rounds_without_the_target_are_not_rescaled():
    assert rescaling([{"a": 1, "b": 2}, {"t": 1}], ["t"]) == {"a": 1.0, "b": 1.0}


def test_a_client_that_is_not_the_target_keeps_its_own_file(fed):
    before = contribution(fed.store, "c0")
    fed.forget(TARGET, **EXCLUDE, repair_rounds=0)
    after = contribution(fed.store, "c0")
    assert contribution(fed.store, TARGET) is None
    ratios = torch.cat([(after[n] / before[n]).flatten() for n in before if before[n].all()])
    torch.testing.assert_close(ratios, torch.full_like(ratios, 4 / 3))
