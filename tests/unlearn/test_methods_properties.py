"""What must hold for every unlearning method. A method is tested by being listed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers import forgetting_kill
from helpers.forgetting_kill import CLIENTS, TARGET, copied
from helpers.methods import RECORD, SETTINGS, SPECS, UNCHANGING, asked
from helpers.told import AtStage
from helpers.toys import tensor_digests, uneven_data
from pfedul.base.tensorfile import read_file
from pfedul.client import ACTIONS
from pfedul.errors import MethodFailed, NothingChanged
from pfedul.protocol import ClientResult
from pfedul.unlearn.methods import METHODS, client_work
from pfedul.unlearn.options import ForgetOptions

PERSONALIZATIONS = ["fedavg", "fedper", "fedrep", "ditto", "fedbn"]
DATA = uneven_data(CLIENTS)
"""Of uneven labels: a method that tells clients apart by them would do nothing on even ones."""
NAMES = [method.name for method in METHODS]
STARTING_OVER = {method.name for method in METHODS if method.does.starts_over}


def test_every_method_is_listed():
    assert sorted(SPECS) == sorted(NAMES)


def trained(run: Path, **settings) -> Path:
    return forgetting_kill.trained(run, data=DATA, **settings)


def deep_again(run: Path, **settings):
    return forgetting_kill.deep_again(run, data=DATA, **settings)


class Runs(dict):
    """(method, personalization) -> a run that the method can be tried on, trained when needed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, key: tuple[str, str]) -> Path:
        method, personalization = key
        name = f"{personalization}-{method if method in SETTINGS else 'ordinary'}"
        if not (self.folder / name).exists():
            settings = {"record": RECORD, "rounds": 4, **SETTINGS.get(method, {})}
            trained(self.folder / name, personalization=personalization, **settings)
        self[key] = self.folder / name
        return self[key]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("methods"))


class Wholes(dict):
    """(method, personalization) -> the run after an undisturbed removal, and the outcome."""

    def __init__(self, runs: Runs, folder: Path) -> None:
        super().__init__()
        self.runs, self.folder = runs, folder

    def __missing__(self, key: tuple[str, str]):
        self[key] = forgotten(self.runs[key], self.folder / "-".join(key), key[0])
        return self[key]


@pytest.fixture(scope="module")
def wholes(runs, tmp_path_factory):
    return Wholes(runs, tmp_path_factory.mktemp("wholes"))


def forgotten(run: Path, into: Path, name: str, **options):
    """A copy of the run in which the target is forgotten, and the outcome."""
    copy = copied(run, into)
    engine = options.pop("engine", "inline")
    with deep_again(copy, engine=engine) as federation:
        return copy, federation.forget(TARGET, **asked(name, **options))


def personal(run: Path) -> dict[str, str]:
    found = tensor_digests(run)
    return {name: sha for name, sha in found.items() if name.endswith("personal.safetensors")}


@pytest.mark.parametrize("personalization", PERSONALIZATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_only_shared_tensors_change_and_the_target_is_gone(name, personalization, runs, tmp_path):
    run = runs[name, personalization]
    options = {"no_recalibration": True} if METHODS[name].does.recalibrates else {}
    copy, outcome = forgotten(run, tmp_path / "copy", name, **options)
    before, after = personal(run), personal(copy)
    assert not [file for file in copy.rglob("*") if TARGET in str(file.relative_to(copy))]
    assert not (copy / "unlearning").exists()
    if name not in STARTING_OVER:
        assert after == {file: sha for file, sha in before.items() if f"/{TARGET}/" not in file}
    assert after.keys() == {file for file in before if f"/{TARGET}/" not in file}
    shared = [read_file(place / "shared.safetensors") for place in (run, copy)]
    assert shared[0].keys() == shared[1].keys()
    for key, tensor in shared[1].items():
        assert tensor.dtype == shared[0][key].dtype
        assert tensor.shape == shared[0][key].shape
        if not tensor.is_floating_point() and name not in STARTING_OVER:
            assert torch.equal(tensor, shared[0][key])
    assert outcome.targets == (TARGET,)
    assert set(outcome.after) == {"c0", "c2", "c3"}


OTHERWISE_SPLIT = [("one-more-round", "ditto"), ("fedosd", "ditto"), ("fine-tune", "fedbn")]


@pytest.mark.parametrize(
    ("name", "personalization"), [*((name, "fedper") for name in NAMES), *OTHERWISE_SPLIT]
)
def test_the_engine_makes_no_difference(name, personalization, runs, wholes, tmp_path):
    here, _ = wholes[name, personalization]
    there, _ = forgotten(runs[name, personalization], tmp_path / "run", name, engine="processes")
    assert tensor_digests(there) == tensor_digests(here)


@pytest.mark.parametrize("name", NAMES)
def test_any_method_can_be_followed_by_recalibration(name, runs, wholes, tmp_path):
    if METHODS[name].does.recalibrates:
        copy, outcome = wholes[name, "fedper"]
    else:
        copy, outcome = forgotten(runs[name, "fedper"], tmp_path / "copy", name, recalibrate=True)
    before, after = personal(runs[name, "fedper"]), personal(copy)
    assert all(after[file] != before[file] for file in after)
    assert "recalibration" in outcome.stages


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_method_goes_on_to_the_same_tensors(name, last, runs, wholes, tmp_path):
    """At its first step, or at the last moment before all of it is committed."""
    whole, _ = wholes[name, "fedper"]
    copy = copied(runs[name, "fedper"], tmp_path / "copy")
    before = tensor_digests(copy)

    def interrupt(stage, done, _of):
        if done and (stage == "erasure" or not last):
            raise KeyboardInterrupt

    with deep_again(copy) as federation, pytest.raises(KeyboardInterrupt):
        federation.forget(TARGET, **asked(name, callbacks=[AtStage(interrupt)]))
    left = tensor_digests(copy)
    assert {file: left[file] for file in before} == before
    with deep_again(copy) as federation:
        federation.forget(TARGET, **asked(name))
    assert tensor_digests(copy) == tensor_digests(whole)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"none"}))
def test_a_method_changes_something(name, runs, wholes):
    """More than rounding would."""
    copy, _ = wholes[name, "fedper"]
    before, after = (_all_shared(place) for place in (runs[name, "fedper"], copy))
    assert before.keys() == after.keys()
    moved = [
        float((after[key].double() - tensor.double()).norm() / tensor.double().norm())
        for key, tensor in before.items()
        if tensor.is_floating_point()
    ]
    assert max(moved) > 1e-5


@pytest.mark.parametrize("name", sorted(UNCHANGING))
def test_a_method_that_corrects_nothing_is_refused_unless_that_is_asked_for(name, runs, tmp_path):
    copy = copied(runs[name, "fedper"], tmp_path / "copy")
    before = tensor_digests(copy)
    with deep_again(copy) as federation:
        with pytest.raises(NothingChanged, match=f"'{name}' leaves the shared tensors"):
            federation.forget(TARGET, method=SPECS[name])
        assert TARGET in federation.clients
    assert tensor_digests(copy) == before


def _all_shared(run: Path) -> dict[str, torch.Tensor]:
    """The shared tensors, those of clusters too."""
    files = [file for file in run.rglob("*.safetensors") if "shared" in file.name]
    found = {file.relative_to(run): read_file(file) for file in files}
    return {f"{file}/{key}": t for file, tensors in found.items() for key, t in tensors.items()}


SERVER_ALONE = {"pfedul", "none", "exclusion", "fedrecovery", "zerofu", "recalibration"}
"""Methods that ask clients for nothing, before any recalibration."""

ASKING = [
    *(SPECS[name] for name in NAMES if name not in SERVER_ALONE),
    "zerofu:mode=federated,rounds=1,iterations=4,batch=16",
]


def test_methods_that_ask_clients_are_those_with_rounds():
    """The rounds of pFedUL are those of repair, which is no part of the method itself."""
    with_rounds = {method.name for method in METHODS if not method.about.rounds.startswith("0")}
    assert {spec.partition(":")[0] for spec in ASKING} - {"zerofu"} == with_rounds - {"pfedul"}


AGREEING = [spec for spec in ASKING if spec != "knot"]
"""With KNOT one client alone is asked here, and what nobody else confirms ends no removal."""


@pytest.mark.parametrize("spec", AGREEING)
def test_values_that_are_not_finite_are_the_failure_of_the_method(
    spec, runs, tmp_path, monkeypatch
):
    name = spec.partition(":")[0]
    copy = copied(runs[name, "fedper"], tmp_path / "copy")
    before = tensor_digests(copy)
    broken = {name: _broken(work) for name, work in client_work().items()}
    monkeypatch.setattr("pfedul.federation.client_work", lambda: broken)
    monkeypatch.setitem(ACTIONS, "fit", _broken_fit(ACTIONS["fit"]))
    with deep_again(copy) as federation:
        with pytest.raises(Exception, match=f"'{name}' diverged") as refusal:
            federation.forget(TARGET, method=spec)
        assert isinstance(refusal.value, MethodFailed)
        assert "\n" not in str(refusal.value)
        assert "min-replies" not in str(refusal.value)
        assert TARGET in federation.clients
        assert federation.store.ledger.column("SELECT status FROM requests") == ["failed"]
    assert tensor_digests(copy) == before


def _broken_fit(fit):
    def broken(*arguments):
        reply = fit(*arguments)
        return replace(reply, shared=_not_a_number(reply.shared))

    return broken


def _broken(work):
    def broken(*arguments):
        done = work(*arguments)
        return ClientResult(_not_a_number(done.tensors), done.metrics)

    return broken


def _not_a_number(tensors):
    """Counters stay whole: a tensor of another type would be refused before it is looked at."""
    return {n: t * float("nan") if t.is_floating_point() else t for n, t in tensors.items()}


LEAVING_OUT = [
    name
    for name in NAMES
    if name not in SERVER_ALONE | STARTING_OVER | {"ga-naive", "knot", "mimir"}
]
"""Methods that ask every remaining client, and do without one that is away."""


@pytest.mark.parametrize("name", LEAVING_OUT)
def test_that_one_is_away_is_said_and_others_are_not_mixed_in_by_a_resumption(
    name, runs, wholes, tmp_path
):
    run = runs[name, "fedper"]
    whole, outcome = wholes[name, "fedper"]
    assert not [note for note in outcome.notes if "away" in note]
    away, outcome = forgotten(run, tmp_path / "away", name, away=["c3"])
    assert [note for note in outcome.notes if note.startswith("1 client away")]
    copy, turns = copied(run, tmp_path / "copy"), []

    def interrupt(stage, done, _of):
        turns.append(stage)
        if done and stage not in ("evaluation", "unlearning"):
            raise KeyboardInterrupt

    with deep_again(copy) as federation, pytest.raises(KeyboardInterrupt):
        federation.forget(TARGET, method=SPECS[name], away=["c3"], callbacks=[AtStage(interrupt)])
    resumed = copied(copy, tmp_path / "resumed")
    with deep_again(copy) as federation:
        federation.forget(TARGET, method=SPECS[name])
    assert tensor_digests(copy) == tensor_digests(whole)
    with deep_again(resumed) as federation:
        outcome = federation.forget(TARGET, method=SPECS[name], away=["c3"])
    assert tensor_digests(resumed) == tensor_digests(away)
    assert [note for note in outcome.notes if note.startswith("1 client away")]


@pytest.mark.parametrize("name", ["one-more-round", "fedosd"])
def test_how_many_replies_were_refused_is_said(name, runs, tmp_path, monkeypatch):
    run, usual = runs[name, "fedper"], ACTIONS["work"]

    def false(bench, task, job):
        reply = usual(bench, task, job)
        return replace(reply, samples=1) if job.client == "c2" else reply

    monkeypatch.setitem(ACTIONS, "work", false)
    _, outcome = forgotten(run, tmp_path / "copy", name)
    assert [note for note in outcome.notes if note.startswith("replies of 1 client were refused")]
    assert not [note for note in outcome.notes if "away" in note]


@pytest.mark.parametrize("name", [m.name for m in METHODS if m.needs.target])
def test_a_method_that_needs_the_target_says_so_before_it_starts(name, runs):
    before = tensor_digests(runs[name, "fedper"])
    with (
        deep_again(runs[name, "fedper"]) as federation,
        pytest.raises(Exception, match=f"'{name}' needs {TARGET} to take part"),
    ):
        federation.forget(TARGET, away=[TARGET], method=SPECS[name])
    assert tensor_digests(runs[name, "fedper"]) == before


@pytest.fixture(scope="module")
def without_records(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("records") / "run", record="none")


@pytest.mark.parametrize("name", [m.name for m in METHODS if m.needs.records])
def test_a_method_without_its_record_says_which_flag_would_have_kept_it(name, without_records):
    before = tensor_digests(without_records)
    with (
        deep_again(without_records) as federation,
        pytest.raises(Exception, match="--record " + ForgetOptions(SPECS[name]).records[0]),
    ):
        federation.forget(TARGET, method=SPECS[name])
    assert tensor_digests(without_records) == before


NOTHING_RANDOM = {"none", "exclusion"}
"""Methods that draw nothing; pFedUL's clients draw their batches when they recalibrate."""


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_of_its_own_gives_the_same_tensors_again_and_other_ones(
    name, runs, wholes, tmp_path
):
    one, two = (
        tensor_digests(forgotten(runs[name, "fedper"], tmp_path / turn, name, seed=7)[0])
        for turn in ("one", "two")
    )
    assert one == two
    assert (one == tensor_digests(wholes[name, "fedper"][0])) == (name in NOTHING_RANDOM)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_says_what_a_user_must_know(name):
    method = METHODS[name]
    texts = (
        method.summary,
        method.about.paper,
        method.about.who,
        method.about.rounds,
        method.about.guarantee,
    )
    for text in (*texts, method.about.memory, method.about.avoids):
        assert text.strip()
    assert method.name == method.name.lower()
