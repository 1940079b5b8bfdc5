"""Comparison: cells branch from one checkpoint, the run stays, results survive an interruption."""

import json
import pickle
import shutil
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace

import pytest

from helpers.cells_here import cells_here
from helpers.commands import call, refuse, succeed
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.methods import RECORD
from helpers.toys import tensor_digests
from pfedul.compare import worker
from pfedul.compare.cells import Comparison, cells_of, options_of, seeds_of, with_budget
from pfedul.compare.comparison import compare
from pfedul.compare.document import FIGURES, INTERVALS, leaks, method_rows, stored_bytes
from pfedul.compare.folder import FORMAT, earlier_cells
from pfedul.compare.page import write_pages
from pfedul.compare.process import CellTask, Children, child_of, listen, threads_for
from pfedul.compare.scatter import dots_of
from pfedul.errors import PfedulError
from pfedul.store.marker import mark
from pfedul.unlearn.base import Needs
from pfedul.unlearn.methods import METHODS

FEW = "none,one-more-round,pfedul,ga-naive:rounds=2"


def quiet(*_words) -> None:
    pass


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    return trained(folder / "run", personalization="fedper", record=RECORD, rounds=4)


@pytest.fixture
def _cells_here():
    with cells_here():
        yield


@pytest.fixture(scope="module")
def found(start):
    with deep_again(start) as federation:
        before = tensor_digests(start)
        asked = Comparison(federation, (TARGET,), cells_of([FEW], [None, 1]), workers=2)
        with cells_here():
            folder, document = compare(asked, quiet, quiet)
        after = {name: sha for name, sha in tensor_digests(start).items() if name in before}
        assert after == before
        assert TARGET in federation.clients
    return folder, document


def test_all_is_every_method_and_its_variants():
    labels = {cell.label for cell in cells_of(["all"], [None])}
    assert labels >= {method.name for method in METHODS}
    assert labels >= {label for method in METHODS for label in method.about.variants}


def test_each_cell_is_there_once_for_each_seed():
    cells = cells_of(["none", "none,pfedul"], [None, 1])
    assert [(cell.label, cell.seed) for cell in cells] == [
        ("none", None),
        ("none", 1),
        ("pfedul", None),
        ("pfedul", 1),
    ]
    assert len({cell.key for cell in cells}) == 4


def test_pfedul_takes_the_options_of_forget():
    options = options_of("pfedul:correction=reset,fraction=0.3,repair-rounds=2")
    assert options.correction.startswith("reset")
    assert (options.fraction, options.repair_rounds) == (0.3, 2)
    assert options_of("none+recalibrate").recalibration() is not None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("magic", "Unknown method 'magic'"),
        ("", "Name at least one method"),
        ("pfedul:magic=1", "The method 'pfedul' has no option 'magic'"),
        ("pfedul:alpha=x", "Option 'alpha' of the method 'pfedul' takes a value of type float"),
        ("pfedul:seed=1", "has no option 'seed' in a comparison"),
        ("pfedul:alpha", "needs a value for 'alpha'"),
        ("ga-naive:rounds=x", "takes a value of type int"),
        ("pfedul,,none", "A name is missing in 'pfedul,,none'"),
        ("pfedul,", "A name is missing in 'pfedul,'"),
        ("fine-tune:rounds=1,,ascent=2", "A name is missing"),
        ("fine-tune:", "behind the colon of 'fine-tune:'; write 'fine-tune' or"),
        ("pfedul:+recalibrate", "No options stand behind the colon"),
    ],
)
def test_a_list_that_cannot_be_read_gets_a_sentence(text, sentence):
    with pytest.raises(PfedulError, match=sentence):
        cells_of([text], [None])


def test_a_cell_does_what_forget_does(start, found, tmp_path):
    folder, document = found
    with deep_again(copied(start, tmp_path / "run"), engine="inline") as federation:
        outcome = federation.forget(TARGET)
    branch = json.loads((_cell_folder(folder, "pfedul") / "result.json").read_text())["outcome"]
    assert branch["state_sha256_after"] == outcome.state_sha256_after
    row = next(row for row in document["cells"] if row["label"] == "pfedul")
    assert row["pps"] == pytest.approx(outcome.as_json()["pps"])
    assert row["seed"] is None


def _cell_folder(folder: Path, label: str) -> Path:
    key = next(cell.key for cell in cells_of([label], [None]))
    return folder / key


def test_doing_nothing_is_the_untouched_run(found):
    _, document = found
    rows = {row["label"]: row for row in document["references"]}
    none = next(row for row in document["methods"] if row["label"] == "none")
    assert none["mean_excess"] == pytest.approx(rows["untouched"]["mean_excess"])
    assert none["pps"] == pytest.approx(1.0)
    assert rows.keys() == {"untouched", "oracle 1", "oracle 2"}


def test_seeds_matter_only_to_what_is_random(found):
    _, document = found
    by_label = {}
    for cell in document["cells"]:
        by_label.setdefault(cell["label"], []).append(cell["mean_excess"])
    assert by_label["none"][0] == by_label["none"][1]
    assert by_label["one-more-round"][0] != by_label["one-more-round"][1]


def test_a_second_call_works_on_nothing_that_is_finished(start, found):
    folder, document = found
    files = {file: file.stat().st_mtime_ns for file in folder.rglob("result.json")}
    assert len(files) == 8
    told = []
    with deep_again(start) as federation:
        asked = Comparison(federation, (TARGET,), cells_of([FEW], [None, 1]), workers=2)
        again, other = compare(asked, quiet, lambda done, of, now: told.append((done, of, now)))
    assert again == folder
    assert told == [(8, 8, "")]
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("result.json")} == files
    assert other["methods"] == document["methods"]


def test_an_interrupted_comparison_goes_on(start, found, tmp_path):
    run = without_comparisons(start, tmp_path / "run")
    cells = cells_of([FEW], [None])

    def interrupt(done, _of, _now):
        if done == 2:
            raise KeyboardInterrupt

    with deep_again(run) as federation, pytest.raises(KeyboardInterrupt):
        compare(Comparison(federation, (TARGET,), cells, workers=1), quiet, interrupt)
    kept = list((run / "comparisons").rglob("result.json"))
    assert 2 <= len(kept) < 4
    with deep_again(run) as federation:
        _, document = compare(Comparison(federation, (TARGET,), cells, workers=2), quiet, quiet)
    mine = {row["label"]: row["mean_excess"] for row in document["methods"]}
    whole = {row["label"]: row for row in found[1]["cells"] if row["seed"] is None}
    assert mine == {label: whole[label]["mean_excess"] for label in mine}


def without_comparisons(start: Path, place: Path) -> Path:
    run = copied(start, place)
    shutil.rmtree(run / "comparisons", ignore_errors=True)
    return run


DIVERGES = "ga-naive:lr=1e30,clip=1e30"


@pytest.mark.usefixtures("_cells_here")
def test_a_method_that_fails_is_a_row_that_says_so(start, tmp_path):
    run = without_comparisons(start, tmp_path / "run")
    cells = cells_of([f"none,{DIVERGES}"], [None])
    with deep_again(run) as federation:
        folder, document = compare(Comparison(federation, (TARGET,), cells), quiet, quiet)
        none, failed = document["methods"]
        assert none["failure"] is None
        assert "'ga-naive' diverged" in failed["failure"]
        assert failed["pps"] is None
        assert [dot.label for dot in dots_of(document)] == [
            *("untouched", "oracle 1", "oracle 2", "none")
        ]
        file = folder / cells[1].key / "result.json"
        kept, told = file.stat().st_mtime_ns, []
        asked = Comparison(federation, (TARGET,), cells)
        compare(asked, quiet, lambda done, of, now: told.append((done, of, now)))
    assert told == [(2, 2, "")]
    assert file.stat().st_mtime_ns == kept


def test_a_failure_that_is_not_the_methods_own_is_tried_again(monkeypatch, tmp_path):
    def no_room(_task, _on_stage):
        raise PfedulError("No space left.")

    monkeypatch.setattr(worker, "_result", no_room)
    task = CellTask("none", "none", options_of("none"), None, SimpleNamespace(folder=tmp_path))
    assert worker.carry_out(task, quiet) == {"failure": "No space left."}
    assert not list(tmp_path.iterdir())


def test_what_earlier_calls_found_stays_on_the_page_behind_what_is_asked_for(start, found):
    """Also with other seeds: the row of a method is over all seeds that are there."""
    folder, _ = found
    with deep_again(start) as federation:
        asked = Comparison(federation, (TARGET,), cells_of(["pfedul"], [None]))
        again, document = compare(asked, quiet, quiet)
    assert again == folder
    rows = [(row["label"], row["asked"], row["seeds"]) for row in document["methods"]]
    assert rows == [
        ("pfedul", True, 2),
        ("none", False, 2),
        ("one-more-round", False, 2),
        ("ga-naive:rounds=2", False, 2),
    ]
    cells = [cell for cell in document["cells"] if cell["asked"]]
    assert [(cell["label"], cell["seed"]) for cell in cells] == [("pfedul", None)]
    assert "ga-naive:rounds=2" in document["command"]


def test_results_in_another_form_are_not_taken_for_earlier_ones(tmp_path):
    for name, text in (("none-1", '{"format": 0}'), ("none-2", _result("none"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(text)
    assert earlier_cells(tmp_path, []) == []
    key = cells_of(["none"], [None])[0].key
    (tmp_path / "none-2").rename(tmp_path / key)
    assert [cell.key for cell in earlier_cells(tmp_path, [])] == [key]


def _result(label: str) -> str:
    return json.dumps({"format": FORMAT, "label": label, "seed": None, "failure": None})


def test_forgetting_somebody_removes_comparisons_with_them(start, found, tmp_path):
    run = copied(start, tmp_path / "run")
    folder = run / "comparisons" / "x"
    mark(folder)
    (folder / "clients.json").write_text('["c0", "c1", "c2", "c3"]')
    with deep_again(run) as federation:
        assert folder.exists()
        federation.forget("c2")
        assert not (run / "comparisons").exists()
    assert found[0].exists()


def test_the_page_has_every_method_and_no_network(found, tmp_path):
    files = write_pages(found[1], tmp_path / "page")
    html = files["page"].read_text()
    for word in ("none", "one-more-round", "pfedul", "oracle 1", "untouched", "PPS", "CFI"):
        assert word in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html
    assert files["picture"].read_bytes().startswith(b"\x89PNG")
    assert json.loads(files["json"].read_text())["targets"] == [TARGET]
    assert "| method |" in files["markdown"].read_text()


def test_excess_is_over_the_oracles():
    tests = [{"difference": {"value": value}} for value in (0.3, -0.1, 0.1)]
    assert leaks(tests) == {"mean_excess": pytest.approx(0.1), "largest_excess": 0.3}
    assert leaks([]) == {"mean_excess": None, "largest_excess": None}


def test_rows_over_seeds_are_means_and_failures_are_counted():
    base = {"label": "a", "method": "a", "control": False, "verdict": "forgotten"}
    base |= {"asked": True, "own_base": False}
    figures = dict.fromkeys((*FIGURES, *INTERVALS))
    rows = method_rows(
        [
            {**base, **figures, "failure": None, "mean_excess": 0.1, "pps": 0.8},
            {**base, **figures, "failure": None, "mean_excess": 0.3, "pps": 1.0},
            {**base, **figures, "failure": "broke", "mean_excess": None, "pps": None},
        ]
    )
    assert rows[0]["mean_excess"] == pytest.approx(0.2)
    assert rows[0]["pps"] == pytest.approx(0.9)
    assert rows[0]["spread"]["mean_excess"] == pytest.approx(0.1)
    assert (rows[0]["seeds"], rows[0]["failed"], rows[0]["failure"]) == (3, 1, "broke")


def test_what_training_keeps_is_counted_by_record(tmp_path):
    for name, size in (("fisher/a", 3), ("fisher-total", 4), ("norms/a", 50), ("normsother/a", 9)):
        file = tmp_path / "records" / f"{name}.safetensors"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    pfedul = METHODS["pfedul"]
    assert stored_bytes(tmp_path, pfedul) == 7
    assert stored_bytes(tmp_path, replace(pfedul, needs=Needs(records=("fisher", "norms")))) == 57
    assert stored_bytes(tmp_path, METHODS["none"]) == 0


@pytest.mark.usefixtures("_cells_here")
def test_what_knot_keeps_is_that_of_the_run_it_branched_from(tmp_path):
    """With two clusters one model more than an ordinary run has, and all checkpoints."""
    run = trained(tmp_path / "run", record="fisher", participation=0.5, rounds=4)
    with deep_again(run) as federation:
        asked = Comparison(federation, (TARGET,), cells_of(["knot,none"], [None]), workers=2)
        folder, document = compare(asked, quiet, quiet)
    (base,) = folder.glob("base-*")
    checkpoints = [file.stat().st_size for file in (base / "records/clusters").rglob("*.*")]
    model = (run / "init.safetensors").stat().st_size
    stored = {row["label"]: row["bytes_stored"] for row in document["methods"]}
    assert len(checkpoints) > 0
    assert stored == {"knot": model + sum(checkpoints), "none": 0}


def test_the_command_prints_a_table_and_json(tmp_path):
    fast = "--clients 4 --samples 160 --local-epochs 1 --model mlp --engine inline --rounds 2"
    run = tmp_path / "run"
    succeed("train", run, *fast.split(), "--min-samples", "2", "--seed", "1")
    client = json.loads(succeed("status", run, "--json"))["clients"][0]["client"]
    words = ("compare", run, "--client", client, "--methods", "none,pfedul")
    text = succeed(*words, "--save", tmp_path / "out")
    assert "pfedul" in text
    assert "oracle 2" in text
    assert (tmp_path / "out" / "scatter.png").is_file()
    found = json.loads(succeed(*words, "--in-turn", "--json"))
    assert [row["label"] for row in found["methods"]] == ["none", "pfedul"]
    assert found["command"].endswith(" --in-turn")
    assert Path(found["files"]["page"]).is_file()
    told = succeed("compare", run, "--client", client, "--methods", "none")
    assert "The page also has 1 way that earlier calls compared." in told
    assert "pfedul" in Path(found["files"]["markdown"]).read_text()
    assert "no client 'nobody'" in refuse("compare", run, "--client", "nobody")
    assert "Unknown method" in refuse("compare", run, "--client", client, "--methods", "magic")
    assert "Name at least one client" in refuse("compare", run)


@pytest.fixture(scope="module")
def without_records(tmp_path_factory) -> tuple[Path, str]:
    """A run that kept no records, and one of its clients."""
    fast = "--clients 4 --samples 160 --local-epochs 1 --model mlp --engine inline --rounds 2"
    run = tmp_path_factory.mktemp("plain") / "run"
    words = ("--min-samples", "2", "--seed", "1", "--record", "none")
    succeed("train", run, *fast.split(), *words)
    return run, json.loads(succeed("status", run, "--json"))["clients"][0]["client"]


def test_what_cannot_be_tried_at_all_is_refused_before_anything_is_trained(without_records):
    run, client = without_records
    words = ("compare", run, "--client", client, "--methods")
    assert "--record" in refuse(*words, "federaser")
    assert "No method that was asked for can be tried" in refuse(*words, "federaser,fedrecovery")
    assert not (run / "comparisons").exists()


@pytest.mark.usefixtures("_cells_here")
def test_the_command_fails_where_every_method_failed(without_records):
    run, client = without_records
    words = ("compare", run, "--client", client, "--methods", f"federaser,{DIVERGES}")
    result = call(*words)
    assert result.exit_code == 1
    assert "no result [1]" in result.stdout
    assert "'ga-naive' diverged" in result.stdout
    assert "No method that was asked for came to a result" in result.stderr
    assert call(*words, "--json").exit_code == 1


def test_a_folder_that_cannot_be_written_is_refused_first(without_records, tmp_path):
    run, client = without_records
    (tmp_path / "file").touch()
    words = ("compare", run, "--client", client, "--methods", "none", "--save", tmp_path / "file")
    told = refuse(*words)
    assert "Cannot write to" in told
    assert "cells" not in told


def test_seeds_are_never_the_runs_own_twice():
    seeds = seeds_of(1, 3)
    assert seeds[0] is None
    assert len({1, *seeds[1:]}) == 3
    assert seeds_of(1, 3) == seeds


def test_all_may_stand_in_a_list_and_wrong_words_are_named():
    labels = [cell.label for cell in cells_of(["pfedul,all"], [None])]
    assert labels[0] == "pfedul"
    assert set(labels) >= {method.name for method in METHODS}
    with pytest.raises(PfedulError, match="Unknown method 'nosuch'"):
        cells_of(["none,nosuch"], [None])
    with pytest.raises(PfedulError, match="takes yes or no, not 'maybe'"):
        cells_of(["pfedul:no-recalibration=maybe"], [None])
    assert options_of("pfedul:no-recalibration=1").no_recalibration
    assert options_of("pfedul:no-recalibration").no_recalibration
    assert not options_of("pfedul:no-recalibration=no").no_recalibration


def test_a_branch_does_not_pass_as_the_run(start, found, tmp_path):
    """Its chain goes on from that of the run, and the same key signed it."""
    branch = next((found[0]).glob("*/branch"))
    run = tmp_path / "run"
    for place in (start, branch):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(place, run)
        if place == start:
            deep_again(run).close()
    with pytest.raises(PfedulError, match="is not a run: it was made below a run"):
        deep_again(run)
    for words in (["certificate"], ["key", "--accept"], ["status"], ["verify"]):
        assert "is not a run" in " ".join(call(*words, run).output.split())
        assert call(*words, run).exit_code == 1


@pytest.mark.usefixtures("found", "_cells_here")
def test_a_branch_that_was_half_copied_is_copied_again(start, tmp_path):
    run = copied(start, tmp_path / "run")
    cells = cells_of(["none"], [None])
    place = next((run / "comparisons").iterdir()) / cells[0].key
    shutil.rmtree(place)
    mark(place / "branch.new")
    shutil.copy(run / "ledger.db", place / "branch.new" / "ledger.db")
    with deep_again(run) as federation:
        _, document = compare(Comparison(federation, (TARGET,), cells), quiet, quiet)
    assert document["methods"][0]["failure"] is None
    assert not (place / "branch.new").exists()


class Called:
    """Pickled, a call: it is made when the process of a cell reads its task."""

    def __init__(self, function, *words) -> None:
        self._call = function, words

    def __reduce__(self):
        return self._call


@contextmanager
def cell_at(folder: Path, work: Called, children: Children | None = None):
    """The process of a cell, given a task whose bench is the work."""
    common = SimpleNamespace(folder=folder, bench=pickle.dumps(work))
    task = CellTask("none", "none", None, None, common)
    with TemporaryFile() as log, child_of(children or Children(), task, log) as child:
        yield child


def test_the_process_of_a_cell_ends_with_its_comparison(tmp_path):
    with cell_at(tmp_path, Called(time.sleep, 600)) as child:
        child.lifeline.close()
        assert child.process.wait(timeout=120) == 1


def test_the_process_of_a_cell_ends_in_order_when_it_is_done(tmp_path):
    with cell_at(tmp_path, Called(options_of, "nosuch")) as child:
        assert "Unknown method" in listen(child, quiet)["failure"]
        assert child.process.wait(timeout=120) == 0


def test_a_process_that_nobody_listens_to_any_more_is_ended_and_collected(tmp_path):
    with cell_at(tmp_path, Called(time.sleep, 600)) as child:
        assert child.process.poll() is None
    assert child.process.returncode == -signal.SIGKILL
    assert child.line.closed


def test_a_process_that_is_started_during_an_interrupt_ends_at_once(tmp_path):
    children = Children()
    with pytest.raises(KeyboardInterrupt), threads_for(children, 1):
        raise KeyboardInterrupt
    with cell_at(tmp_path, Called(time.sleep, 600), children) as child:
        assert child.process.wait(timeout=120) == -signal.SIGKILL


def test_an_interrupt_ends_the_processes_that_are_at_work(tmp_path):
    children = Children()
    with (
        cell_at(tmp_path, Called(time.sleep, 600), children) as child,
        pytest.raises(KeyboardInterrupt),
        threads_for(children, 1),
    ):
        raise KeyboardInterrupt
    assert child.process.returncode == -signal.SIGKILL


def test_a_budget_is_the_time_that_pfedul_took():
    cells = cells_of(["pfedul,budgeted-retrain:times=2"], [None])
    took = {"plan": {"cpu_seconds": 1.5}, "evaluation": {"cpu_seconds": 9.0}}
    result = {"failure": None, "outcome": {"stages": took}}
    given = with_budget(cells[1], cells, {cells[0].key: result})
    assert METHODS.parse(given.method)[1].cpu_seconds == 1.5
    assert METHODS.parse(given.method)[1].times == 2
    assert with_budget(cells[1], cells, {}) is cells[1].options


@pytest.mark.usefixtures("_cells_here")
def test_a_base_in_clusters_is_trained_for_knot(start, tmp_path):
    run = without_comparisons(start, tmp_path / "run")
    with deep_again(run) as federation:
        cells = cells_of(["knot"], [None])
        folder, document = compare(Comparison(federation, (TARGET,), cells), quiet, quiet)
        assert not federation.clusters.several
    row = document["methods"][0]
    assert row["failure"] is None
    assert row["rounds"] == 4
    assert row["own_base"]
    assert [dot.label for dot in dots_of(document) if dot.number] == ["knot †"]
    assert any("run of its own" in note for note in document["cells"][0]["notes"])
    assert len(list(folder.glob("base-*"))) == 1
