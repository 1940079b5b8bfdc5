"""Every rule from findings to verdict, the words, and what controls rely on."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pfedul.audit.attacks.base import Estimate
from pfedul.audit.attacks.checks import KL_FROM_ORACLE, TRIGGER_SUCCESS
from pfedul.audit.attacks.roc import AUC
from pfedul.audit.attacks.ulira import ACCURACY as ULIRA
from pfedul.audit.judge.paired_test import REDUCTION, Compared, PairedTest, paired_test
from pfedul.audit.judge.placements import Placed, Scores
from pfedul.audit.judge.references import DIFFERENCE
from pfedul.audit.judge.rules import (
    VERDICTS,
    Finding,
    Guard,
    TriggerFinding,
    Verdict,
    VerdictRules,
    accuses,
    passes,
)
from pfedul.audit.judge.verdict import judge


def figure(metric, value, reach=0.05):
    return Estimate(metric, value, (value - reach, value + reach))


def placed(value):
    """A model with this AUC, on samples that leave no doubt."""
    return Placed(np.full(100, value), np.full(100, value))


def finding(word, surface="stale", attack="rmia", difference=None, before=None, visible=0.06):
    """A finding whose numbers fit its word; oracles are at 0.52."""
    usual = {"leak": 0.3, "reduced leak": 0.19, "below": -0.2, "unclear": 0.05}
    away = usual.get(word, 0.01) if difference is None else difference
    nothing = word == "nothing to see"
    before = before or (0.02 if nothing else 0.35)
    reach = max(0.05, before + 0.01) if nothing else 0.05
    return Finding(
        surface,
        attack,
        PairedTest(
            candidate=figure(AUC, 0.52 + away, 0.06),
            oracles=(figure(AUC, 0.51), figure(AUC, 0.53)),
            untouched=figure(AUC, 0.52 + before),
            difference=figure(DIFFERENCE, away),
            spread=0.02,
            untouched_difference=figure(DIFFERENCE, before, reach),
            reduction=figure(REDUCTION, before - away),
            smallest_visible=visible,
            finding=word,
            compared=Compared(
                placed(0.52 + away), placed(0.52 + before), (placed(0.51), placed(0.53))
            ),
        ),
    )


def after_the_fact(one):
    blank = {"untouched": None, "untouched_difference": None, "reduction": None}
    return replace(one, test=replace(one.test, **blank))


def words(*findings, oracles=4, untested=None, **more):
    return judge(VerdictRules(findings, oracles, "client-05", **more), untested)


SOUND = Guard(figure(KL_FROM_ORACLE, 0.1, 0.01), (0.05, 0.1))
ODD = Guard(figure(KL_FROM_ORACLE, 0.3, 0.05), (0.05, 0.1))
TOLD = Estimate(ULIRA, 0.7, (0.55, 0.85))
NOT_TOLD = Estimate(ULIRA, 0.55, (0.4, 0.7))
RETRAINED = (figure(TRIGGER_SUCCESS, 0.1), figure(TRIGGER_SUCCESS, 0.15))
WORKS = TriggerFinding(figure(TRIGGER_SUCCESS, 0.9), RETRAINED, figure(TRIGGER_SUCCESS, 0.95))
GONE = TriggerFinding(figure(TRIGGER_SUCCESS, 0.12), RETRAINED, figure(TRIGGER_SUCCESS, 0.95))
NEVER = TriggerFinding(figure(TRIGGER_SUCCESS, 0.12), RETRAINED, figure(TRIGGER_SUCCESS, 0.12))

RULES = [
    (["leak", "within"], {}, "not forgotten"),
    (["leak", "reduced leak"], {}, "not forgotten"),
    (["reduced leak", "within"], {}, "partly forgotten"),
    (["reduced leak", "below"], {}, "partly forgotten"),
    (["below", "within"], {}, "over-forgotten"),
    (["below", "unclear"], {}, "over-forgotten"),
    (["within", "unclear"], {}, "not enough evidence"),
    (["nothing to see", "unclear"], {}, "not enough evidence"),
    (["within", "within"], {}, "forgotten"),
    (["within", "nothing to see"], {}, "forgotten"),
    (["nothing to see", "nothing to see"], {}, "nothing measurable to forget"),
    (["nothing to see", "nothing to see"], {"oracles": 2}, "not enough evidence"),
    (["nothing to see", "nothing to see"], {"oracles": 3}, "nothing measurable to forget"),
    (["within", "within"], {"oracles": 1}, "not enough evidence"),
    (["leak", "leak"], {"oracles": 1}, "not enough evidence"),
    (["within", "within"], {"guard": SOUND}, "forgotten"),
    (["within", "within"], {"guard": ODD}, "partly forgotten"),
    (["leak", "within"], {"guard": ODD}, "not forgotten"),
    (["nothing to see", "nothing to see"], {"guard": ODD}, "nothing measurable to forget"),
    (["within", "within"], {"ulira": TOLD}, "partly forgotten"),
    (["within", "within"], {"ulira": NOT_TOLD}, "forgotten"),
    (["nothing to see", "nothing to see"], {"ulira": TOLD}, "partly forgotten"),
    (["within", "unclear"], {"ulira": TOLD}, "not enough evidence"),
    (["within", "within"], {"backdoor": WORKS}, "not forgotten"),
    (["nothing to see", "nothing to see"], {"backdoor": GONE}, "forgotten"),
    (["nothing to see", "nothing to see"], {"backdoor": NEVER}, "nothing measurable to forget"),
]


@pytest.mark.parametrize(("found", "more", "verdict"), RULES)
def test_every_rule(found, more, verdict):
    judged = words(*map(finding, found, ["stale", "remaining"]), **more)
    assert judged.verdict == verdict
    assert verdict in VERDICTS
    assert bool(judged.needed) == (verdict == "not enough evidence")
    assert json.loads(json.dumps(judged.as_json()))["verdict"] == verdict


def test_every_verdict_has_a_rule_in_the_table():
    assert {verdict for _, _, verdict in RULES} == set(VERDICTS)


def test_a_weaker_attack_adds_no_doubt_where_another_settles_it():
    assert words(finding("unclear", "stale"), finding("within", "stale")).verdict == "forgotten"


def test_a_direction_that_was_fitted_does_not_turn_over_forgetting_into_a_leak():
    below, fitted = finding("below", "stale"), finding("leak", "stale", "logistic")
    assert words(below, fitted).verdict == "over-forgotten"
    assert words(below, finding("leak", "probe", "logistic")).verdict == "not forgotten"
    assert words(below, finding("leak", "stale", "rmia")).verdict == "not forgotten"


def test_forgotten_needs_a_bound_below_one_half_on_what_is_left():
    judged = words(finding("within", difference=0.01))
    assert judged.verdict == "forgotten"
    assert "Of what could be seen, 97 % (" in judged.sentence
    judged = words(finding("within", difference=0.15))  # of 0.35; no test need say so alone
    assert judged.verdict == "not enough evidence"
    assert any("Less than 50 % of the leak left" in need for need in judged.needed)
    assert any("as many" in need for need in judged.needed)


def test_each_surface_counts_by_what_it_gave_away():
    large, small = (
        finding("within", "stale", difference=0.0),
        finding("within", "probe", difference=0.09, before=0.12),
    )
    assert words(large, small).verdict == "forgotten"
    assert words(small).verdict == "not enough evidence"


def test_what_cannot_be_bounded_is_not_forgotten():
    one = finding("within")
    lost = replace(one, test=replace(one.test, compared=None))
    assert words(lost).verdict == "not enough evidence"


@pytest.mark.parametrize(("before", "visible"), [(0.13, 0.1), (0.02, 0.2)])
def test_nothing_measurable_needs_a_bound_on_what_there_was(before, visible):
    """A leak that may be as large as 0.15 is not nothing, be it estimated or not excluded."""
    seen = finding("nothing to see", "stale")
    unsure = finding("nothing to see", "probe", before=before, visible=visible)
    assert words(seen).verdict == "nothing measurable to forget"
    assert words(seen, unsure).verdict == "not enough evidence"
    another = finding("nothing to see", "probe")
    assert words(seen, unsure, another).verdict == "nothing measurable to forget"


@pytest.mark.parametrize("visible", [0.01, 0.06, 0.14])
def test_two_oracles_never_find_nothing(visible):
    judged = words(finding("nothing to see", visible=visible), oracles=2)
    assert judged.verdict == "not enough evidence"
    assert judged.needed[0] == "More oracles: 4 instead of 2."


def test_no_test_no_verdict():
    judged = words()
    assert judged.verdict == "not enough evidence"
    assert "At least one attack" in judged.needed[0]


def test_the_sentence_of_a_leak_names_the_strongest_with_its_numbers():
    judged = words(
        finding("reduced leak", "remaining", difference=0.4), finding("leak", difference=0.19)
    )
    assert judged.sentence == (
        "Through the stale head, client-05's samples can still be distinguished from others: AUC "
        "0.71 (0.65 to 0.77) where retraining gives 0.52; before the removal it was 0.87. Of "
        "what could be seen, 16 % (-9 % to 36 %) is gone. A leak below 0.06 in AUC might "
        "not have been seen."
    )


@pytest.mark.parametrize(
    ("found", "more", "part"),
    [
        ("within", {}, "any better than after retraining: AUC 0.53"),
        ("reduced leak", {}, "though less than before"),
        ("below", {}, "less familiar"),
        ("nothing to see", {}, "Even before the removal"),
        ("unclear", {}, "does not decide"),
        ("within", {"guard": ODD}, "noise can hide a leak"),
        ("within", {"ulira": TOLD}, "U-LiRA accuracy 0.70 (0.55 to 0.85)"),
        ("within", {"backdoor": WORKS}, "it still works"),
        ("within", {"oracles": 1}, "With 1 oracle and 1 test nothing can be said"),
    ],
)
def test_the_sentence_of_every_verdict(found, more, part):
    assert part in words(finding(found), **more).sentence


def test_reasons_go_test_by_test_and_check_by_check():
    judged = words(
        finding("within"),
        finding("nothing to see", "remaining", "threshold"),
        guard=SOUND,
        ulira=NOT_TOLD,
        backdoor=GONE,
        held_out=[Verdict("forgotten", ""), Verdict("nothing measurable to forget", "")],
    )
    assert [part in line for part, line in zip(
        ["RMIA", "loss threshold", "trigger", "U-LiRA", "nats", "none was accused"],
        judged.reasons, strict=True,
    )] == [True] * 6  # fmt: skip


def test_limits_are_always_said():
    limits = " ".join(
        words(finding("within"), oracles=2, untested={"probe": "no head was trained"}).limits
    )
    for part in ("these attacks", "backups", "2 oracles", "guessed", "a freshly trained head (no"):
        assert part in limits
    assert "guessed" not in " ".join(words(finding("within"), oracles=4).limits)


def test_after_the_fact_a_test_must_be_able_to_see_something():
    sharp, blunt = (after_the_fact(finding("within", visible=leak)) for leak in (0.1, 0.3))
    judged = words(sharp)
    assert judged.verdict == "forgotten"
    assert any("what there was to forget" in limit for limit in judged.limits)
    judged = words(blunt)
    assert judged.verdict == "not enough evidence"
    assert "about 4 times as many" in judged.needed[1]
    assert words(sharp, blunt).verdict == "forgotten"


def test_nothing_to_see_for_the_blind_is_no_verdict():
    judged = words(finding("nothing to see", before=0.02, visible=0.3))
    assert judged.verdict == "not enough evidence"
    assert "about 4 times as many" in judged.needed[1]


def test_more_samples_are_asked_for_by_the_square():
    # half-width 0.05 and a whole leak of 0.04: (0.05 / 0.04)^2 * 2 = 3.1
    judged = words(finding("unclear", before=0.04))
    assert judged.needed == (
        "More oracles: 8 instead of 4.",
        "More samples of client-05 and of non-members: at least about 4 times as many.",
    )


def accused(strayed):
    return words(finding("leak", difference=strayed))


def test_a_leak_must_go_beyond_what_accused_oracles_showed():
    assert accused(0.1).strayed == pytest.approx(0.1)
    clear = words(finding("leak", difference=0.3), held_out=[accused(0.1)])
    assert clear.verdict == "not forgotten"
    faint = words(finding("leak", difference=0.14), held_out=[accused(0.1)])
    assert faint.verdict == "not enough evidence"
    assert "no more than about a retrained model" in faint.sentence
    assert faint.needed == ("More oracles: 8 instead of 4.",)
    below = words(finding("below", difference=-0.14), held_out=[accused(0.1)])
    assert below.verdict == "not enough evidence"


def test_false_alarms_do_not_spoil_what_was_not_accused():
    assert words(finding("within"), held_out=[accused(0.1)]).verdict == "forgotten"


def test_a_check_that_accuses_an_oracle_decides_nothing():
    oracle = words(finding("within"), guard=ODD)
    assert accuses(oracle)
    assert words(finding("within"), guard=ODD, held_out=[oracle]).verdict == "not enough evidence"
    assert words(finding("leak"), guard=ODD, held_out=[oracle]).verdict == "not forgotten"


def test_lack_of_evidence_about_an_oracle_is_no_false_alarm():
    shrug = Verdict("not enough evidence", "")
    assert words(finding("leak"), held_out=[shrug]).verdict == "not forgotten"


@pytest.mark.parametrize("verdict", VERDICTS)
def test_what_passes(verdict):
    judged = Verdict(verdict, "")
    assert passes(judged) == (verdict == "forgotten")
    nothing = "nothing measurable to forget"
    assert passes(judged, held_out=True) == (verdict in ("forgotten", nothing))


def test_a_guard_without_a_second_oracle_says_so():
    lone = Guard(figure(KL_FROM_ORACLE, 0.3), None)
    judged = words(finding("within"), guard=lone)
    assert judged.verdict == "forgotten"
    assert any("with one oracle" in reason for reason in judged.reasons)


def test_the_controls_on_simulated_models():
    stream = np.random.default_rng(0)
    difficulty = stream.normal(size=(2, 200))

    def model(memory):
        inside, outside = difficulty + stream.normal(0, 0.5, size=(2, 200))
        return Scores(inside[None, None] + memory, outside[None, None])

    oracles, untouched = [model(0) for _ in range(5)], model(1.5)
    held_out, *others = oracles

    def verdict(candidate, **more):
        found = paired_test(candidate, others, untouched)
        return words(Finding("stale", "threshold", found), **more)

    assert passes(verdict(held_out), held_out=True)
    assert verdict(untouched).verdict == "not forgotten"
    noisy = Scores(*(stream.normal(size=(1, 1, 200)) for _ in range(2)))
    assert not passes(verdict(noisy, guard=ODD))
