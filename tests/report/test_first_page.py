"""The first page stands alone: what was asked, done and found, at which price, and what to do."""

import pytest

from helpers import example_material as example
from pfedul.audit.ask.surfaces import SURFACES
from pfedul.audit.attacks import ATTACKS
from pfedul.report.page import report_content


def first(material):
    return report_content(material).banner


def commands(material):
    return [command for step in first(material).steps for command in step.commands]


def test_it_answers_every_question():
    page = first(example.full())
    facts = dict(page.facts)
    assert "To forget client-05" in facts["What was asked"]
    assert "by the method pfedul" in facts["What was done"]
    assert "3 files (45.7 kB) and 27 rows" in facts["What was done"]
    assert "They kept 99 % of their accuracy" in facts["What it cost the others"]
    assert "4 % of training again" in facts["What it took"]
    assert page.not_claimed == tuple(example.full()["evidence"]["verdict"]["limits"])


def test_the_one_number_is_a_share_with_its_interval_in_words():
    material = example.full()
    material["evidence"]["removed"] = {"value": 0.893, "interval": [0.59, 1.43]}
    figure = first(material).figure
    assert figure.value == "89 %"
    assert "between 59 % and all of it, with 95 % confidence" in figure.words
    assert first(example.other_tensors()).figure is None


def test_more_than_all_is_called_too_much():
    material = example.leaking("over-forgotten")
    material["evidence"]["removed"] = {"value": 1.6, "interval": [1.2, 1.9]}
    figure = first(material).figure
    assert figure.value == "160 %"
    assert "Too much was taken away" in figure.words


def test_where_nothing_could_be_seen_the_number_is_what_could_have_been_missed():
    material = example.leaking("nothing measurable to forget")
    assert first(material).figure.value == "0.06"


def test_a_removal_that_is_shown_is_signed_and_filed():
    assert commands(example.full())[:2] == [
        "pfedul certificate runs/demo --request 1",
        "pfedul report runs/demo --request 1 --format pdf",
    ]


@pytest.mark.parametrize("name", ["without_evidence", "other_tensors"])
def test_a_removal_that_was_not_shown_is_audited(name):
    command = commands(example.VARIANTS[name]())[0]
    assert command.startswith("pfedul audit runs/demo --request 1 --target-data run --level")


def test_what_leaks_is_trained_again():
    assert commands(example.leaking())[-3].endswith("--client client-05 --method retrain")


def test_what_leaks_in_a_rehearsal_is_rehearsed_with_a_stronger_setting():
    material = {**example.leaking(), "request": None, "applies": None}
    material["run"]["records"] = {"fisher": {}, "contributions": {}}
    assert commands(material) == [
        "pfedul rehearse runs/demo --client client-05 --level quick --oracles 2"
    ]


def test_a_rehearsal_that_is_good_is_followed_by_the_same_removal():
    command = commands(example.rehearsed_only())[0]
    assert command == "pfedul forget runs/demo --client client-05 --correction reset:fraction=0.2"


@pytest.mark.parametrize("name", ["full", "without_evidence", "rehearsed_only"])
def test_oracles_are_explained_where_a_step_names_them(name):
    words = " ".join(step.words for step in first(example.VARIANTS[name]()).steps)
    assert "models that are trained again without the client (oracles)" in words


def test_samples_on_other_machines_are_not_audited():
    material = example.without_evidence()
    material["run"]["traffic"] = []
    assert not [command for command in commands(material) if "audit" in command]


def test_nothing_is_done_with_a_run_that_is_not_as_it_was_signed():
    material = example.full()
    material["run"]["chain"] = {
        "wrong": ["Entry 3 was changed."],
        "entries": 9,
        "signer": "a1" * 32,
        "head": "b2" * 32,
        "own": True,
    }
    page = first(material)
    assert (page.look.sign, page.figure, page.facts) == ("!", None, ())
    assert commands(material) == ["pfedul verify runs/demo"]


def test_every_attack_and_surface_is_explained_in_two_sentences():
    for entry in (*ATTACKS, *SURFACES):
        words = entry.explanation.split(". ")
        assert len(words) == 2, entry.name
        assert words[-1].endswith("."), entry.name


def test_they_are_explained_before_the_first_picture_of_them():
    blocks = report_content(example.full()).sections[0].blocks
    names = [type(block).__name__ for block in blocks]
    facts = [dict(block.rows) for block in blocks if type(block).__name__ == "FactList"]
    assert {"remaining", "stale"} <= facts[0].keys()
    assert {"threshold", "logistic", "rmia"} == facts[1].keys()
    assert names.index("FactList") < names.index("Gallery")
