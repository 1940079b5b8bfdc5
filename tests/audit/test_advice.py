"""What `rehearse` advises next: never what was just done, and never a coarser look."""

import itertools
from dataclasses import replace

import pytest

from helpers.auditing import rehearsal
from helpers.forgetting_kill import TARGET, deep
from pfedul.audit.advice import (
    NOTHING_LEFT,
    SETTLED,
    Removed,
    Trial,
    after_rehearsal,
    after_removal,
    given_options,
    next_command,
    next_trial,
)
from pfedul.audit.judge.rules import FORGOTTEN, NOT_ENOUGH, OVER_FORGOTTEN, PARTLY, VERDICTS
from pfedul.audit.levels import LEVELS
from pfedul.audit.rehearsal import option_words

OPTIONS = {
    "default": {},
    "away": {"away": ("c0",)},
    "seed": {"seed": 3},
    "ordinary": {"repair": "ordinary"},
    "without rounds": {"repair_rounds": 0},
    "many rounds": {"repair_rounds": 9},
    "half": {"strength": 0.5},
    "some layers": {"layers": "high"},
    "paper": {"correction": "paper"},
    "reset": {"correction": "reset"},
    "old heads": {"method": "old-heads"},
    "ct": {"method": "ct"},
    "retrain": {"method": "retrain"},
}
SPENT = [*((name, None) for name in LEVELS), ("standard", 2), ("strict", 20)]


@pytest.fixture(scope="module", params=["fisher+contributions", "fisher"])
def federation(request, tmp_path_factory):
    with deep(tmp_path_factory.mktemp("advice") / "run", record=request.param) as made:
        yield made


def done(federation, options, level=("standard", None), *targets):
    name, oracles = level
    how = {"level": name, "oracles": oracles, **OPTIONS[options]}
    return Trial.of(rehearsal(federation, *(targets or (TARGET,)), **how))


def advice(trial, verdict):
    return next_command(after_rehearsal(trial, verdict, "RUN"))


@pytest.mark.parametrize("verdict", VERDICTS)
def test_advice_is_never_the_command_just_given_nor_a_coarser_look(verdict, federation):
    for options, level in itertools.product(OPTIONS, SPENT):
        before = done(federation, options, level)
        words = advice(before, verdict)
        assert f"--client {TARGET}" in words or words == NOTHING_LEFT
        after = next_trial(before, verdict)
        if words.startswith("pfedul rehearse"):
            assert after.options.as_json() != before.options.as_json() or (
                after.level.oracles > before.level.oracles
            )
            assert after.level.oracles >= before.level.oracles
            assert (f"--level {after.level.name}" in words) == (after.level.name != "instant")


def test_a_removal_that_left_too_much_climbs_to_retraining(federation):
    ladder, here = [], done(federation, "paper")
    while here is not None:
        ladder.append(advice(here, PARTLY).removeprefix("pfedul rehearse RUN "))
        here = next_trial(here, PARTLY)
    recorded = "contributions" in federation.settings.records
    at = f"--client {TARGET}%s --level standard --oracles 4"
    excluding = [at % "", at % " --repair ordinary"] if recorded else []
    assert ladder == [
        *excluding,
        at % " --method retrain",
        f"--client {TARGET} --method retrain --level strict --oracles 8",
        NOTHING_LEFT,
    ]


def test_too_little_evidence_asks_for_more_oracles_until_there_is_no_level_left(federation):
    at = {"instant": "standard --oracles 4", "quick": "standard --oracles 4"}
    at["standard"] = "strict --oracles 8"
    for level, words in at.items():
        assert advice(done(federation, "ordinary", (level, None)), NOT_ENOUGH) == (
            f"pfedul rehearse RUN --client {TARGET} --repair ordinary --level {words}"
        )
    assert next_trial(done(federation, "ordinary", ("strict", None)), NOT_ENOUGH) is None


@pytest.mark.parametrize(("targets", "rounds"), [((TARGET,), 8), ((TARGET, "c2"), 16)])
def test_a_removal_that_went_too_far_gets_more_rounds_than_it_had(targets, rounds, federation):
    before = done(federation, "default", ("standard", None), *targets)
    after = next_trial(before, OVER_FORGOTTEN)
    assert after.options.repairs == rounds
    assert before.targets == after.targets


def test_what_is_forgotten_is_removed_with_the_same_options(federation):
    words = advice(done(federation, "half"), FORGOTTEN)
    assert words.startswith(f"pfedul forget RUN --client {TARGET} --strength 0.5,")


def test_a_client_with_an_odd_name_stays_one_word(federation):
    trial = replace(done(federation, "default"), targets=("two words",))
    assert "--client 'two words' " in advice(trial, PARTLY)


def test_options_that_were_written_down_are_shown_as_they_were_given(federation):
    for options in OPTIONS:
        trial = done(federation, options)
        written = trial.options.settled(trial.usual).as_json()
        again = given_options(written, trial.usual)
        assert again.settled(trial.usual).as_json() == written
        assert len(option_words(again)) <= len(option_words(trial.options)), options


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("oracles", [0, 4, 8])
@pytest.mark.parametrize("measurable", [True, False])
def test_what_is_removed_is_signed_looked_at_more_closely_or_trained_again(
    verdict, oracles, measurable
):
    removed = Removed(("ann", "bob"), 3, oracles, measurable)
    steps = after_removal(removed, verdict, "RUN")
    commands = [command for step in steps for command in step.commands]
    assert "pfedul certificate RUN --request 3" in commands
    audits = [command for command in commands if command.startswith("pfedul audit")]
    assert len(audits) == (measurable and oracles < 8 and verdict in {*SETTLED, NOT_ENOUGH})
    assert all("--request 3 --target-data run --level s" in audit for audit in audits)
    first = next_command(steps)
    assert first.startswith("pfedul certificate") == (verdict in SETTLED)
    again = "pfedul forget RUN --client ann --client bob --method retrain"
    assert (again in commands) == (verdict not in {*SETTLED, NOT_ENOUGH})
