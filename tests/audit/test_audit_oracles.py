"""Oracles: the bits of a plain retraining, trained once, gone on with."""

import shutil
from contextlib import closing

import pytest
import torch

from helpers.auditing import counted_tasks, interrupt_at
from helpers.forgetting_kill import CLIENTS, TARGET, Deep, copied, deep_again, trained
from helpers.toys import QUICK, client_data, tensor_digests
from pfedul import Federation
from pfedul.audit.models import trained_oracles
from pfedul.base.keys import KEY_VARIABLE, make_key
from pfedul.base.tensorfile import read_file
from pfedul.run.retrained import open_recipe, oracle_recipes, replies_left, rounds_done
from pfedul.store.ledger import Ledger
from pfedul.store.marker import mark, remove
from pfedul.store.requests import file_request
from pfedul.store.takeover import accept

REMAINING = ["c0", "c2", "c3"]


class Dropping(torch.nn.Module):
    """Dropout draws from the stream of each task."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(4, 6)
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.drop(self.body(x).relu()))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("oracles") / "run")


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """Two oracles that nobody interrupted."""
    return oracles(copied(start, tmp_path_factory.mktemp("whole") / "run"))[1]


def said_nothing(*_):
    """Told of stages, it does nothing."""


def oracles(run, count=2, targets=(TARGET,), on_stage=said_nothing, **settings):
    with deep_again(run, **settings) as federation:
        recipes = oracle_recipes(federation, targets, count)
        return trained_oracles(federation, targets, recipes, on_stage), recipes


def plain(folder, seed, model=Deep, data=None, **settings):
    """The same settings, the remaining clients' data, the oracle's seed: nothing of an audit."""
    known = data or {name: parts for name, parts in client_data(CLIENTS).items() if name != TARGET}
    chosen = {"data": known, "model": model, **QUICK, **settings, "seed": seed, "record": "none"}
    with Federation.create(folder, **chosen) as federation:
        federation.train()
    return tensor_digests(folder)


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_an_oracle_is_bit_for_bit_a_plain_retraining(engine, run, tmp_path):
    _, recipes = oracles(run, engine=engine, workers=2)
    for recipe in recipes:
        assert tensor_digests(recipe.folder) == plain(tmp_path / recipe.name, recipe.seed)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (Dropping, {"personalization": "fedrep"}),
        (Deep, {"personalization": "ditto", "participation": 0.5}),
        (Deep, {"personalization": "fedbn", "local_epochs": 2}),
        (Deep, {"personalization": "fedavg", "checkpoint_every": 2, "evaluate_every": 1}),
    ],
    ids=["dropout", "participation", "fedbn", "fedavg"],
)
def test_whatever_the_model_and_the_settings_it_is_a_plain_retraining(model, settings, tmp_path):
    run = trained(tmp_path / "run", model=model, **settings)
    _, (recipe,) = oracles(run, 1, model=model)
    assert tensor_digests(recipe.folder) == plain(
        tmp_path / "plain", recipe.seed, model, **settings
    )


def test_oracles_differ_and_nothing_of_the_target_is_in_them(run):
    found, recipes = oracles(run, 3)
    assert len({oracle.shared_sha256 for oracle in found}) == 3
    assert len({recipe.seed for recipe in recipes} | {0}) == 4
    for oracle, recipe in zip(found, recipes, strict=True):
        assert list(oracle.state.personal) == REMAINING
        assert not any(TARGET in path.name for path in recipe.folder.rglob("*"))
        assert not (recipe.folder / "records").exists()
        assert oracle.accuracies.keys() == set(REMAINING)
        assert oracle.cpu_seconds > 0


def test_the_target_fits_a_head_of_its_own_to_each_oracle(run):
    """Only in memory, and only the head: the oracle's shared tensors stay as they are."""
    found, recipes = oracles(run)
    heads = [oracle.state.fitted[TARGET] for oracle in found]
    assert set(heads[0]) == {"head.weight", "head.bias"}
    with deep_again(run) as federation:  # like for like: every model under the part that was kept
        kept = federation.personal(TARGET)
    assert all(torch.equal(o.state.stale[TARGET][name], kept[name]) for o in found for name in kept)
    assert not torch.equal(heads[0]["head.weight"], heads[1]["head.weight"])
    for oracle, recipe in zip(found, recipes, strict=True):
        stored = read_file(recipe.folder / "shared.safetensors")
        assert all(torch.equal(oracle.state.shared[name], stored[name]) for name in stored)


def test_the_second_time_nothing_is_trained(run):
    first, _ = oracles(run)
    with counted_tasks() as done:
        second, recipes = oracles(run)
    assert [task for task in done if task[0] == "fit"] == []
    assert [oracle.cached for oracle in first] == [False, False]
    assert [oracle.cached for oracle in second] == [True, True]
    for one, two in zip(first, second, strict=True):
        assert one.shared_sha256 == two.shared_sha256
        for kind in ("shared", "personal", "stale", "fitted"):
            _same(getattr(one.state, kind), getattr(two.state, kind))
    with counted_tasks() as done:
        third, _ = oracles(run, 3)
    assert len([task for task in done if task[0] == "fit"]) == 3 * len(REMAINING)
    assert [oracle.cached for oracle in third] == [True, True, False]
    with deep_again(run) as federation:
        assert replies_left(federation, recipes) == 0


def _same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        if isinstance(one[name], torch.Tensor):
            assert torch.equal(one[name], two[name])
        else:
            _same(one[name], two[name])


@pytest.mark.parametrize("done", [1, 8, 13])
def test_interrupted_at_any_reply_it_goes_on_to_the_same_bits(done, run, whole):
    with pytest.raises(KeyboardInterrupt):
        oracles(run, on_stage=interrupt_at("oracles", done))
    with deep_again(run) as federation:
        left = replies_left(federation, oracle_recipes(federation, (TARGET,), 2))
    assert left < 18 or done < 3
    with counted_tasks() as tasks:
        _, again = oracles(run)
    assert len([task for task in tasks if task[0] == "fit"]) == left
    for one, two in zip(whole, again, strict=True):
        assert one.folder.name == two.folder.name
        assert tensor_digests(one.folder) == tensor_digests(two.folder)


def of_another_key(run, recipes):
    """The same federations, made by somebody else."""
    with pytest.MonkeyPatch.context() as patch:
        make_key(run.with_name("other.key"))
        patch.setenv(KEY_VARIABLE, str(run.with_name("other.key")))
        theirs = copied(run, run.with_name("theirs"))
        accept(theirs)
        for recipe in recipes:
            remove(theirs / "oracles" / recipe.folder.name)
        oracles(theirs)
    shutil.rmtree(run / "oracles")
    shutil.move(theirs / "oracles", run / "oracles")


def of_another_seed(_run, recipes):
    one, two = (recipe.folder for recipe in recipes)
    one.rename(one.with_name("kept"))
    two.rename(one)
    one.with_name("kept").rename(two)


def with_a_removal(_run, recipes):
    for recipe in recipes:
        with closing(Ledger(recipe.folder / "ledger.db")) as ledger:
            file_request(ledger, [TARGET], {}, {})


@pytest.mark.parametrize("planted", [of_another_key, of_another_seed, with_a_removal])
def test_an_oracle_that_was_put_there_is_trained_anew(planted, run, whole):
    """Whoever can write to the run could else decide what a removal is measured against."""
    planted(run, oracles(run)[1])
    with deep_again(run) as federation:
        assert replies_left(federation, oracle_recipes(federation, (TARGET,), 2)) == 18
    again, recipes = oracles(run)
    assert [oracle.cached for oracle in again] == [False, False]
    for one, two in zip(whole, recipes, strict=True):
        assert tensor_digests(one.folder) == tensor_digests(two.folder)
    with counted_tasks() as tasks:
        oracles(run)
    assert [task for task in tasks if task[0] == "fit"] == []


def test_progress_grows_to_its_end_whether_begun_or_not(run):
    for interrupted in (4, None):
        said = []

        def on_stage(stage, done, of, said=said, interrupted=interrupted):
            said.append((stage, done, of))
            if interrupted is not None and done >= interrupted:
                raise KeyboardInterrupt

        if interrupted is None:
            oracles(run, on_stage=on_stage)
        else:
            with pytest.raises(KeyboardInterrupt):
                oracles(run, on_stage=on_stage)
        counts = [done for _, done, _ in said]
        assert counts == sorted(counts)
        assert {stage for stage, _, _ in said} == {"oracles"}
        assert len({of for _, _, of in said}) == 1
    assert said[0][1] == 0
    assert said[-1][1] == said[-1][2] == 18 - 3  # one round of the first was done


def test_a_run_that_was_trained_on_goes_on_with_its_oracles(run, tmp_path):
    _, before = oracles(run, 1)
    with deep_again(run) as federation:
        federation.train(5)
    with counted_tasks() as tasks:
        (found,), (recipe,) = oracles(run, 1)
    assert recipe.folder == before[0].folder
    assert len([task for task in tasks if task[0] == "fit"]) == 2 * len(REMAINING)
    assert not found.cached
    with deep_again(run) as federation:
        assert rounds_done(federation, recipe) == 5
    assert tensor_digests(recipe.folder) == plain(tmp_path / "plain", recipe.seed, rounds=5)


def keys(run, targets=(TARGET,), **again):
    with deep_again(run, **again) as federation:
        return [recipe.folder.name for recipe in oracle_recipes(federation, targets, 2)]


def test_the_key_of_an_oracle_is_what_it_depends_on(start, run, tmp_path):
    known = keys(start)
    assert len(set(known)) == 2
    with deep_again(run, workers=2, checkpoint_every=3, evaluate_every=2) as federation:
        federation.train(4)
    assert keys(run) == known
    assert not set(keys(start, ("c0",))) & set(known)
    assert not set(keys(start, ("c0", TARGET))) & set(known)
    others = {
        "lr": trained(tmp_path / "lr", lr=0.123, rounds=1),
        "seed": trained(tmp_path / "seed", seed=7, rounds=1),
        "head": trained(tmp_path / "fedrep", personalization="fedrep", rounds=1),
    }
    for run_of_other in others.values():
        assert not set(keys(run_of_other)) & set(known)
    data = client_data(CLIENTS, train=26)
    with Federation.create(tmp_path / "data", data=data, model=Deep, **QUICK) as federation:
        assert not {r.folder.name for r in oracle_recipes(federation, (TARGET,), 2)} & set(known)
    changed = client_data(CLIENTS)
    changed[TARGET] = data[TARGET]  # of which an oracle has nothing
    with Federation.create(tmp_path / "own", data=changed, model=Deep, **QUICK) as federation:
        assert [r.folder.name for r in oracle_recipes(federation, (TARGET,), 2)] == known


def test_training_an_oracle_leaves_no_engine_of_its_own_and_the_runs_at_work(run):
    with deep_again(run) as federation:
        engine = federation.engine
        (recipe,) = oracle_recipes(federation, (TARGET,), 1)
        with closing(open_recipe(federation, recipe)) as oracle:
            assert oracle.engine is not engine
        assert federation.engine is engine
        federation.evaluate()


def test_half_a_folder_of_an_oracle_is_made_anew(run, whole):
    with deep_again(run) as federation:
        (recipe,) = oracle_recipes(federation, (TARGET,), 1)
        mark(recipe.folder)
        (recipe.folder / "shared.safetensors").write_bytes(b"half")
        trained_oracles(federation, (TARGET,), [recipe], said_nothing)
    assert tensor_digests(recipe.folder) == tensor_digests(whole[0].folder)
