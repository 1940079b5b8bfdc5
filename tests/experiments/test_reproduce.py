"""Experiments end to end, on digits: worked out case by case, and never twice."""

import json
import shutil
from dataclasses import replace

import pytest

from helpers.cells_here import cells_here
from helpers.commands import refuse, succeed
from pfedul.errors import PfedulError
from pfedul.experiments import EXPERIMENTS, working
from pfedul.experiments.base import RETRAINED, UNTOUCHED, Experiment, Group, Picture, Row
from pfedul.experiments.cases import Scale, case_of, cases_of
from pfedul.experiments.reproduce import Reproduction, reproduce
from pfedul.experiments.sharing import USUAL, records_of, sharing_of

TINY = {"rounds": 2, "clients": 4, "samples": 240, "min_samples": 20, "engine": "inline"}
GROUPS = [
    Group("digits", name, "cifar10", "fedper", {**TINY, "lr": lr})
    for name, lr in {"slow": 0.01, "fast": 0.1}.items()
]
EXPERIMENT = Experiment(
    name="tiny",
    summary="two federations",
    source="",
    groups=GROUPS,
    rows=(Row("before", UNTOUCHED), Row("ours", "pfedul"), Row("again", RETRAINED)),
    columns=("accuracy", "pps", "removed"),
    picture=Picture("lines", "rate", (1, 2)),
)


def quiet(*_words) -> None:
    pass


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory) -> Reproduction:
    folder = tmp_path_factory.mktemp("reproduced")
    return Reproduction([EXPERIMENT], Scale("toy", seeds=1), folder)


@pytest.fixture(scope="module")
def documents(reproduction):
    """The second case is interrupted once, in the midst of its oracles."""
    seen = []

    def interrupt(done: float, _of: int, now: str) -> None:
        seen.append(now)
        if done > 1 and "oracles" in now:
            raise KeyboardInterrupt

    with cells_here():
        with pytest.raises(KeyboardInterrupt):
            reproduce(reproduction, interrupt)
        assert len(list((reproduction.folder / "cells").iterdir())) == 1
        assert (reproduction.folder / "tiny.md").is_file()
        return reproduce(reproduction, quiet)


def test_every_cell_has_its_figures(documents):
    (document,) = documents
    assert document["missing"] == 0
    for group in document["groups"]:
        for row in ("ours", "again"):
            assert group["cells"][row]["pps"]["mean"] > 0
            assert 10 < group["cells"][row]["accuracy"]["mean"] <= 100
        assert group["cells"]["before"]["accuracy"]["mean"] > 10


def test_files_are_written_and_runs_are_gone(documents, reproduction):
    assert {f.name for f in reproduction.folder.iterdir()} == {
        *("cells", "runs", "tiny.json", "tiny.md", "tiny.png")
    }
    assert {f.suffix for f in (reproduction.folder / "runs").iterdir()} == {".lock"}
    written = json.loads((reproduction.folder / "tiny.json").read_text())
    assert written == json.loads(json.dumps(documents[0]))


def test_nothing_is_worked_out_twice(documents, reproduction, monkeypatch):
    monkeypatch.setattr("pfedul.experiments.reproduce.work_out", lambda *_: pytest.fail("again"))
    assert reproduce(reproduction, quiet) == documents
    assert reproduction.price().cases == 0


def test_an_interrupted_case_gives_what_an_uninterrupted_one_gives(
    documents, reproduction, tmp_path
):
    only = replace(EXPERIMENT, groups=GROUPS[1:], picture=None)
    with cells_here():
        (whole,) = reproduce(replace(reproduction, experiments=[only], folder=tmp_path), quiet)
    for row in ("before", "ours", "again"):
        resumed = documents[0]["groups"][1]["cells"][row]
        assert whole["groups"][0]["cells"][row] == resumed


def test_a_case_that_cannot_be_drawn_says_so(reproduction, tmp_path):
    greedy = replace(EXPERIMENT, groups=[replace(GROUPS[0], leaving=4)])
    with pytest.raises(PfedulError, match="4 clients are to leave"):
        reproduce(replace(reproduction, experiments=[greedy], folder=tmp_path), quiet)


def test_targets_of_fewer_are_the_first_of_more(reproduction, tmp_path):
    case, _ = reproduction.wanted[0]
    run = working._run_of(case, working.Workplace(tmp_path / "run", USUAL))
    one, three = (working.targets_of(run, replace(case, leaving=n)) for n in (1, 3))
    run.close()
    assert three[:1] == one
    assert len(set(three)) == 3


def test_who_leaves_in_turn_is_forgotten_one_after_another(tmp_path):
    group = replace(GROUPS[0], leaving=2)
    case, in_turn = (
        case_of(replace(group, in_turn=turns), Scale("toy"), 0) for turns in (False, True)
    )
    place = working.Workplace(tmp_path / "run", USUAL)
    with cells_here():
        at_once, after_another = (
            working.work_out(one, ["ga-naive:rounds=1"], place, quiet) for one in (case, in_turn)
        )
    assert at_once["targets"] == after_another["targets"]
    assert at_once["methods"]["ga-naive:rounds=1"]["rounds"] == 1
    assert after_another["methods"]["ga-naive:rounds=1"]["rounds"] == 2


def test_records_are_those_that_the_methods_need():
    assert records_of(["pfedul"]) == records_of([]) == USUAL
    assert records_of(["federaser"]) == "fisher+contributions+norms"


def test_what_was_ended_from_outside_is_tried_again(tmp_path, monkeypatch):
    only = replace(EXPERIMENT, groups=GROUPS[:1], picture=None)
    reproduction = Reproduction([only], Scale("toy", seeds=1), tmp_path)
    (case, methods) = reproduction.wanted[0]
    with monkeypatch.context() as patch:
        patch.setattr("pfedul.compare.comparison.in_process", lambda *_: {"failure": "Killed."})
        (document,) = reproduce(reproduction, quiet)
    assert document["groups"][0]["failures"] == {"ours": "Killed."}
    assert reproduction.shelf.missing(case, methods) == methods
    left = reproduction.price()
    assert (left.cases, left.trainings, left.oracles, left.removals) == (1, 0, 0, 1)
    with cells_here():
        (document,) = reproduce(reproduction, quiet)
    assert document["groups"][0]["failures"] == {}
    assert not reproduction.sharing.run_of(case).exists()


def test_a_method_that_fails_by_itself_is_not_tried_again(tmp_path):
    diverges = "ga-naive:rounds=1,lr=1e30,clip=1e30"
    rows = (Row("before", UNTOUCHED), Row("bad", diverges), Row("good", "none"))
    only = replace(EXPERIMENT, groups=GROUPS[:1], rows=rows, picture=None)
    reproduction = Reproduction([only], Scale("toy", seeds=1), tmp_path)
    with cells_here():
        (document,) = reproduce(reproduction, quiet)
    assert "diverged" in document["groups"][0]["failures"]["bad"]
    assert reproduction.price().cases == 0


def test_the_price_counts_what_unfinished_cases_have(tmp_path):
    """Interrupted in the midst of the removals: KNOT's training is done as well, and one removal.
    The other case branches from the same training, and needs oracles of its own."""
    rows = (Row("one", "none"), Row("two", "pfedul"), Row("three", "knot"))
    together = replace(EXPERIMENT, groups=GROUPS[:1], rows=rows, picture=None)
    two = replace(GROUPS[0], in_turn=True, leaving=2)
    in_turn = replace(together, groups=[two], rows=rows[:2])
    reproduction = Reproduction([together, in_turn], Scale("toy", seeds=1), tmp_path)
    price = reproduction.price()
    assert (price.cases, price.trainings, price.oracles, price.removals) == (2, 2, 4, 5)

    def interrupt(_done: float, _of: int, now: str) -> None:
        if "pfedul" in now:
            raise KeyboardInterrupt

    with cells_here(), pytest.raises(KeyboardInterrupt):
        reproduce(replace(reproduction, how={"workers": 1}), interrupt)
    left = reproduction.price()
    assert (left.cases, left.trainings, left.oracles, left.removals) == (2, 0, 2, 4)


# What experiments share


def sharing_one(name: str, method: str, **group) -> Experiment:
    return replace(
        EXPERIMENT,
        name=name,
        groups=[replace(GROUPS[0], **group)],
        rows=(Row("before", UNTOUCHED), Row("ours", method)),
        picture=None,
    )


FIRST, SECOND = sharing_one("first", "pfedul"), sharing_one("second", "federaser")
THIRD = sharing_one("third", "none", leaving=2, in_turn=True)


def test_whatever_is_asked_for_and_when_each_federation_is_trained_once(tmp_path, monkeypatch):
    monkeypatch.setattr("pfedul.experiments.reproduce.EXPERIMENTS", [FIRST, SECOND, THIRD])
    spent = set()
    for one in (SECOND, FIRST, THIRD):
        reproduction = Reproduction([one], Scale("toy", seeds=1), tmp_path)
        with cells_here():
            reproduce(reproduction, quiet)
        (case, _) = reproduction.wanted[0]
        results = reproduction.shelf.read(case)
        spent.add(results["training_cpu_seconds"])
        runs = [f for f in (tmp_path / "runs").iterdir() if f.is_dir()]
        assert len(runs) == (one is not THIRD)
    assert len(spent) == 1
    assert set(results["methods"]) == {"none"}
    known = reproduction.shelf.read(Reproduction([FIRST], Scale("toy", 1), tmp_path).wanted[0][0])
    assert set(known["methods"]) == {"pfedul", "federaser"}


def test_processes_share_the_work(reproduction, tmp_path):
    """What another process works on comes last; when that is done, it is not done again."""
    sharing = sharing_of([EXPERIMENT], Scale("toy", seeds=1), tmp_path)
    slow, fast = (case for case, _ in reproduction.wanted)
    elsewhere = sharing.lock(slow.federation)
    elsewhere.acquire()
    done = []
    for case in sharing.free_cases([slow, fast]):
        done.append(case)
        if case is fast:
            elsewhere.release()
    assert done == [fast, slow]


@pytest.mark.usefixtures("documents")
def test_what_another_process_has_done_meanwhile_is_not_done_again(reproduction, tmp_path):
    seen = []
    done_elsewhere = next(
        (reproduction.folder / "cells").glob(f"{reproduction.wanted[1][0].name}*")
    )

    def another(_done: float, _of: int, now: str) -> None:
        if not seen:
            shutil.copy(done_elsewhere, tmp_path / "cells")
        seen.append(now)

    (tmp_path / "cells").mkdir()
    with cells_here():
        both = reproduce(replace(reproduction, folder=tmp_path), another)
    assert {now.split()[0] for now in seen} == {reproduction.wanted[0][0].name}
    assert both[0]["missing"] == 0


# The command


def test_the_list():
    listed = json.loads(succeed("reproduce", "--json"))
    assert [row["name"] for row in listed["experiments"]] == [one.name for one in EXPERIMENTS]
    assert "table7" in succeed("reproduce", "list")


def test_table2_needs_no_data_and_trains_nothing(tmp_path):
    into = tmp_path / "out"
    (document,) = json.loads(
        succeed("reproduce", "table2", "--scale", "paper", "--into", into, "--json")
    )
    shares = {g["name"]: g["cells"] for g in document["groups"]}
    head = 512 * 10 + 10
    body = 11_173_962 - head
    assert shares["CIFAR-10"]["Ditto"]["personal"]["mean"] == 100
    statistics = 2 * 4800
    expected = 100 * head / (head + body + statistics)
    assert shares["CIFAR-10"]["FedPer"]["personal"]["mean"] == pytest.approx(expected, rel=1e-6)


def test_bad_names_and_missing_data_are_one_sentence(tmp_path):
    assert "Unknown experiment 'table77'" in refuse("reproduce", "table77", "--into", tmp_path)
    words = ("reproduce", "table7", "--scale", "cpu", "--data-root", tmp_path, "--into", tmp_path)
    assert "cifar10" in refuse(*words).lower()


def test_the_price_alone(tmp_path):
    words = ("reproduce", "table7", "--scale", "toy", "--seeds", "2", "--into", tmp_path)
    price = json.loads(succeed(*words, "--price", "--json"))
    assert (price["cases"], price["oracles"], price["removals"]) == (2, 4, 16)
    assert price["seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_a_preset_trains(tmp_path):
    run = tmp_path / "run"
    succeed("train", run, "--config", "toy-cifar10", "--rounds", "1")
    assert json.loads(succeed("status", run, "--json"))["rounds"] == 1


def test_all_is_every_experiment(tmp_path):
    words = ("--scale", "toy", "--seeds", "1", "--into", tmp_path, "--price", "--json")
    every = json.loads(succeed("reproduce", "all", *words))
    assert every["cases"] == len(cases_of(list(EXPERIMENTS), Scale("toy", seeds=1)))


def test_only_a_part(tmp_path):
    words = ("--scale", "toy", "--seeds", "3", "--into", tmp_path, "--price", "--json")

    def cases(*only: str) -> int:
        return json.loads(succeed("reproduce", "table4", "table9", *words, *only))["cases"]

    assert cases("--only", "cifar10/fedrep/FedRep") == 3
    assert cases("--only", "Sequential", "--only", "femnist/ditto") == 6
    assert cases("--only", "seed2") == 4 + 3  # at this scale all data are digits
    sentence = refuse("reproduce", "table9", *words[:-1], "--only", "ditto")
    assert "No training has 'ditto' in its name: cifar10/fedrep/Imbalanced/seed0" in sentence


def test_device_workers_and_precision_reach_the_runs(tmp_path):
    how = {"device": "cpu", "workers": 1}
    case = case_of(GROUPS[0], Scale("toy", precision="bfloat16"), 0)
    place = working.Workplace(tmp_path / "run", USUAL, how)
    for _first_and_again in range(2):
        run = working._run_of(case, place)
        run.close()
        assert (run.settings.device, run.settings.workers) == ("cpu", 1)
        assert run.settings.precision == run.bench.precision == "bfloat16"
    assert case.name != case_of(GROUPS[0], Scale("toy"), 0).name
    words = ("reproduce", "table7", "--scale", "toy", "--into", tmp_path / "out")
    assert "There is no device 'abacus'" in refuse(*words, "--device", "abacus")
    assert not (tmp_path / "out").exists()
