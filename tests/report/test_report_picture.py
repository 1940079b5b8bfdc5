"""The picture of a removal, from the evidence in the ledger."""

from dataclasses import replace

import pytest

from helpers.commands import refuse, succeed
from helpers.forgetting_kill import copied
from pfedul import Federation, PfedulError
from pfedul.report import picture
from pfedul.report.looks import with_sign
from pfedul.report.material import read_material
from pfedul.report.picture import panels_of, save_picture
from pfedul.report.removals import removal_name, removals_of
from pfedul.store.store import Store
from pfedul.unlearn.options import ForgetOptions

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TARGET, OTHER = "client-00", "client-01"
SMALL = {
    "data": "digits:test=0.6",
    "samples": 120,
    "test_samples": 240,
    "partition": "iid",
    "clients": 3,
    "model": "mlp:hidden=16",
    "personalization": "fedper",
    "rounds": 2,
    "engine": "inline",
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    run = tmp_path_factory.mktemp("picture") / "run"
    with Federation.create(run, **SMALL) as federation:
        federation.train()
    return run


@pytest.fixture(scope="module")
def rehearsed(start, tmp_path_factory):
    """Of two clients; the removal that is done later was rehearsed first, and once more at last."""
    run = copied(start, tmp_path_factory.mktemp("rehearsed") / "run")
    with Federation.open(run) as federation:
        federation.rehearse(TARGET)
        federation.rehearse(OTHER)
        federation.rehearse(TARGET, correction="paper")
        federation.rehearse(TARGET)
    return run


@pytest.fixture(scope="module")
def removed(rehearsed, tmp_path_factory):
    run = copied(rehearsed, tmp_path_factory.mktemp("removed") / "run")
    with Federation.open(run) as federation:
        federation.forget(TARGET)
    return run


def spent_share(request):
    """CPU time of the removal without what measured it, against retraining."""
    stages = {k: v for k, v in request["stages"].items() if k not in ("evaluation", "audit")}
    own = sum(cost["cpu_seconds"] for cost in stages.values())
    return own / request["retraining_cpu_seconds"]


def test_before_comes_first_then_rehearsals_then_the_removal(removed):
    found = removals_of(removed)
    assert names_of(found) == ["--correction paper", "the default"]
    panels = panels_of(found)
    assert [panel.title for panel in panels] == ["Before", *(f"After {one.name}" for one in found)]
    assert [panel.verdict for panel in panels] == ["", *(with_sign(one.verdict) for one in found)]


def test_a_rehearsal_that_was_repeated_is_drawn_once_where_it_was_first(rehearsed):
    found = removals_of(rehearsed)
    assert names_of(found) == ["the default", "--correction paper"]
    assert {one.targets for one in found} == {(TARGET,)}


def test_every_figure_is_that_of_the_ledger(removed):
    request, own = read_material(removed)["request"], removals_of(removed)[-1]
    assert list(own.tests) == request["audit"]["tests"]
    assert (own.pps, own.verdict) == (request["pps"], request["audit"]["verdict"]["verdict"])
    assert own.price == pytest.approx(spent_share(request))
    before, *_, after = panels_of([own])
    for panel, model in ((before, "untouched"), (after, "candidate")):
        values = [mark.value for row in panel.rows for mark in row.marks]
        assert values == [test["figures"][model]["value"] for test in own.tests]
        spans = [mark.interval for row in panel.rows for mark in row.marks]
        assert spans == [test["figures"][model]["interval"] for test in own.tests]
    assert f"PPS {own.pps:.2f}" in after.words
    assert f"price {100 * own.price:.0f} %" in after.words
    assert [row.label for row in before.rows] == [row.label for row in after.rows]


def test_what_is_not_known_is_not_drawn(removed):
    own = removals_of(removed)[-1]
    tests = [dict(test) for test in own.tests]
    tests[0]["figures"] = {**tests[0]["figures"], "candidate": None}
    before, after = panels_of([replace(own, tests=tests, pps=None, price=None, samples={})])
    assert after.words == ""
    assert len(after.rows) == len(before.rows) - 1
    assert list(picture._notes(replace(own, pps=None, price=None, samples={}))) == []


def test_it_is_saved_in_a_folder_that_is_made(removed, tmp_path):
    found, place = removals_of(removed), tmp_path / "new" / "removal.png"
    save_picture(found, place)
    first = place.read_bytes()
    assert first.startswith(SIGNATURE)
    save_picture(found, place)
    assert place.read_bytes() == first
    save_picture(found[-1:], place)
    assert place.read_bytes() != first


def test_long_and_hostile_names_are_only_names(removed, tmp_path):
    own = replace(removals_of(removed)[-1], targets=("$x$" * 40,), name="<b>$\\frac$" * 20)
    save_picture([own], tmp_path / "removal.png")
    assert (tmp_path / "removal.png").read_bytes().startswith(SIGNATURE)


def test_the_report_draws_it_beside_the_page(removed, tmp_path):
    text = succeed("report", removed, "--picture", tmp_path / "removal.png", "--format", "md")
    assert str(tmp_path / "removal.png") in text
    assert (tmp_path / "removal.png").read_bytes().startswith(SIGNATURE)
    assert (removed / "reports/report.md").is_file()


def test_a_picture_in_the_run_folder_waits_for_the_runs_lock(removed, tmp_path):
    store = Store.open(removed)
    words = "--output", tmp_path / "x.html", "--picture", removed / "reports/x.png"
    assert "open already" in refuse("report", removed, *words)
    store.close()


@pytest.mark.parametrize("name", ["removal.unknown", "folder.png", "file/removal.png"])
def test_a_place_where_no_picture_can_be_is_refused(name, removed, tmp_path):
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_text("")
    page = tmp_path / "page.md"
    words = "--format", "md", "--output", page, "--picture", tmp_path / name
    assert "The picture cannot be saved" in refuse("report", removed, *words)
    assert not page.exists()


def test_where_nothing_was_measured_there_is_nothing_to_draw(start, tmp_path):
    page, place = tmp_path / "page.md", tmp_path / "removal.png"
    words = "--format", "md", "--output", page, "--picture", place
    assert "There is nothing to draw" in refuse("report", start, *words)
    assert not page.exists()
    assert not place.exists()
    run = copied(start, tmp_path / "run")
    succeed("forget", run, "--client", TARGET, "--yes", "--no-audit")
    with pytest.raises(PfedulError, match="nothing to draw"):
        removals_of(run)


def test_a_removal_that_was_not_measured_is_drawn_from_its_rehearsal(rehearsed, tmp_path):
    run = copied(rehearsed, tmp_path / "run")
    succeed("forget", run, "--client", TARGET, "--yes", "--no-audit", "--correction", "paper")
    assert [one.name for one in removals_of(run)][-1] == "--correction paper"


def test_rehearsals_from_other_tensors_are_left_out(rehearsed, tmp_path):
    run = copied(rehearsed, tmp_path / "run")
    with Federation.open(run) as federation:
        federation.train(3)
        federation.forget(TARGET)
    assert len(removals_of(run)) == 1


def names_of(removals) -> list[str]:
    """Without the number of repair rounds, which depends on the target's size."""
    return [one.name.partition(" (")[0] for one in removals]


def usual() -> dict:
    return ForgetOptions().as_json()


def test_names_say_how_a_removal_is_asked_for():
    assert removal_name(usual()).startswith("the default (")
    strong = ForgetOptions(correction="reset:fraction=0.4", repair_rounds=2, repair="distil")
    assert removal_name(strong.as_json()) == (
        "--correction reset:fraction=0.4, 2 distil repair rounds"
    )
    assert removal_name(ForgetOptions(method="retrain").as_json()) == "--method retrain"
