"""What `rehearse` advises next: never what was just done, and never a coarser look."""

import itertools

import pytest

from helpers.auditing import rehearsal
from helpers.forgetting_kill import TARGET, deep
from pfedul.audit.advice import NOTHING_LEFT, next_rehearsal, next_step
from pfedul.audit.judge.rules import FORGOTTEN, NOT_ENOUGH, OVER_FORGOTTEN, PARTLY, VERDICTS
from pfedul.audit.levels import LEVELS

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
    return rehearsal(federation, *(targets or (TARGET,)), **how)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_advice_is_never_the_command_just_given_nor_a_coarser_look(verdict, federation):
    for options, level in itertools.product(OPTIONS, SPENT):
        before = done(federation, options, level)
        words = next_step(before, verdict, "RUN")
        assert f"--client {TARGET}" in words or words == NOTHING_LEFT
        after = next_rehearsal(before, verdict)
        if words.startswith("pfedul rehearse"):
            assert after.options.as_json() != before.options.as_json() or (
                after.level.oracles > before.level.oracles
            )
            assert after.level.oracles >= before.level.oracles
            assert (f"--level {after.level.name}" in words) == (after.level.name != "instant")


def test_a_removal_that_left_too_much_climbs_to_retraining(federation):
    ladder, here = [], done(federation, "paper")
    while here is not None:
        ladder.append(next_step(here, PARTLY, "RUN").removeprefix("pfedul rehearse RUN "))
        here = next_rehearsal(here, PARTLY)
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
        assert next_step(done(federation, "ordinary", (level, None)), NOT_ENOUGH, "RUN") == (
            f"pfedul rehearse RUN --client {TARGET} --repair ordinary --level {words}"
        )
    assert next_rehearsal(done(federation, "ordinary", ("strict", None)), NOT_ENOUGH) is None


@pytest.mark.parametrize(("targets", "rounds"), [((TARGET,), 8), ((TARGET, "c2"), 16)])
def test_a_removal_that_went_too_far_gets_more_rounds_than_it_had(targets, rounds, federation):
    before = done(federation, "default", ("standard", None), *targets)
    after = next_rehearsal(before, OVER_FORGOTTEN)
    assert after.options.repairs == rounds
    assert before.targets == after.targets


def test_what_is_forgotten_is_removed_with_the_same_options(federation):
    words = next_step(done(federation, "half"), FORGOTTEN, "RUN")
    assert words.startswith(f"pfedul forget RUN --client {TARGET} --strength 0.5,")
