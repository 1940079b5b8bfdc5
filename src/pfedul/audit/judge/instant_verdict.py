"""The verdict of the level `instant` in sentences, and its rows as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.base import Estimate
from pfedul.audit.attacks.intervals import Interval
from pfedul.audit.attacks.roc import AUC
from pfedul.audit.judge.instant import Instant, Row, gone
from pfedul.audit.judge.leaks import NO_LEAK, REACH, Leak
from pfedul.audit.judge.references import REMOVED
from pfedul.audit.judge.rules import (
    FORGOTTEN,
    NOT_ENOUGH,
    NOT_FORGOTTEN,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
    Verdict,
)
from pfedul.audit.judge.verdict import LESS_LEFT, SURFACES, seen_and_gone, share

MEANINGS: Mapping[str, str] = {
    "leak": "a leak",
    "reduced leak": "a leak, though smaller than before",
    "within": "no leak is seen, and what may be left is bounded",
    "below": "below 0.5, so the samples stand out as less familiar",
    "unclear": "no leak is seen, but one as large as before cannot be excluded",
    "nothing to see": "no leak was seen before the removal either",
}

_OPENINGS = {
    FORGOTTEN: "No test sees anything of {whose} any more",
    PARTLY: "{whose}'s samples can still be recognised, though less than before",
    NOT_FORGOTTEN: "{whose}'s samples can still be recognised",
    OVER_FORGOTTEN: "{whose}'s samples stand out as less familiar than samples that were never "
    "trained on",
    NOTHING_TO_FORGET: "Even before the removal {whose}'s samples could not be recognised",
    NOT_ENOUGH: "The evidence does not decide whether {whose} is forgotten",
}

LIMITS = (
    "This is evidence about these attacks on these samples; a stronger attack may see more.",
    "It holds only if the client's training and test samples were divided at random.",
    "It says nothing about backups or copies elsewhere.",
)
OF_THE_HEAD = (
    "Through the stale head (the part of the model that the client kept) a leak may be the head's "
    "own, which was fitted to the training samples."
)


def judged(found: Instant, target: str) -> Verdict:
    """The verdict on a removal."""
    verdict = found.verdict()
    return Verdict(
        verdict,
        _sentence(found, verdict, target),
        tuple(map(_reason, found.rows)),
        (*LIMITS, OF_THE_HEAD) if any(row.surface == "stale" for row in found.rows) else LIMITS,
        tuple(_needed(found, target)) if verdict == NOT_ENOUGH else (),
    )


def unjudged(why: str, needed: str = "") -> Verdict:
    """Where nothing was measured: one sentence that says why."""
    return Verdict(NOT_ENOUGH, why, needed=(needed,) if needed else ())


def _sentence(found: Instant, verdict: str, target: str) -> str:
    row = found.strongest
    through = f"through {SURFACES[row.surface]} AUC {row.before.auc:.2f} before, {_auc(row.after)}"
    words = [f"{_OPENINGS[verdict].format(whose=target)}: {through} after."]
    if found.removed is not None:
        words.append(seen_and_gone(Estimate(REMOVED, *found.removed)))
    words.append(f"A leak below {found.smallest_visible:.2f} in AUC might not have been seen.")
    return " ".join(words)


def _auc(leak: Leak) -> str:
    low, high = leak.interval
    return f"{leak.auc:.2f} ({low:.2f} to {high:.2f})"


def _reason(row: Row) -> str:
    left = "" if row.left is None else f" Gone: {share(Estimate(REMOVED, *gone(row.left)))}."
    return (
        f"Through {SURFACES[row.surface]}, {ATTACKS[row.attack].title}: AUC {_auc(row.before)} "
        f"before, {_auc(row.after)} after (p = {min(row.p.after, row.p.below):.3f}, corrected for "
        f"the number of tests): {MEANINGS[row.finding]}.{left}"
    )


def _needed(found: Instant, target: str) -> Iterator[str]:
    yield (
        f"More samples of {target}, of test samples above all: at least about "
        f"{found.samples_factor} times as many."
    )
    if found.leaked:
        yield LESS_LEFT
    yield "Or oracles to compare with: pfedul rehearse --level standard."


# As plain data


DECIMALS = 2
"""An exact AUC is a fraction that tells how many samples there were: the target's size."""


def figure(value: float, interval: Interval) -> dict[str, Any]:
    """A figure of the evidence document."""
    low, high = (round(float(end), DECIMALS) for end in interval)
    return {"value": round(float(value), DECIMALS), "interval": [low, high]}


def removed_figure(left: tuple[float, Interval] | None) -> dict[str, Any] | None:
    """The share of a leak that is gone."""
    return None if left is None else figure(*gone(left))


def row_data(row: Row) -> dict[str, Any]:
    """One test, in the form that the tests of the other levels have; retraining is 1/2 here."""
    fallen = row.before.size - row.after.size
    both = (row.before.covariance(row.before), row.after.covariance(row.after))
    reach = REACH * max(0.0, sum(both) - 2 * row.before.covariance(row.after)) ** 0.5
    return {
        "surface": row.surface,
        "attack": row.attack,
        "metric": AUC.name,
        "best": AUC.best,
        "figures": {"candidate": _figure(row.after), "untouched": _figure(row.before)},
        "difference": _figure(row.after, NO_LEAK),
        "spread": 0.0,
        "untouched_difference": _figure(row.before, NO_LEAK),
        "reduction": figure(fallen, (fallen - reach, fallen + reach)),
        "removed": removed_figure(row.left),
        "p": row.p._asdict(),
        "smallest_visible": round(row.smallest_visible, DECIMALS),
        "finding": row.finding,
    }


def _figure(leak: Leak, less: float = 0.0) -> dict[str, Any]:
    low, high = leak.interval
    return figure(leak.auc - less, (low - less, high - less))
