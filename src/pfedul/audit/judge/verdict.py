"""From findings to one verdict, with a sentence, its reasons and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfedul.audit.attacks.base import Estimate
from pfedul.audit.judge import sentences
from pfedul.audit.judge.findings import NOT_ENOUGH, Finding, Guard, TriggerFinding, Verdict
from pfedul.audit.judge.rules import VerdictRules


def judge(
    findings: Sequence[Finding],
    *,
    oracles: int,
    target: str = "the client",
    guard: Guard | None = None,
    ulira: Estimate | None = None,
    backdoor: TriggerFinding | None = None,
    held_out: Sequence[Verdict] = (),
    untested: Mapping[str, str] | None = None,
) -> Verdict:
    """The verdict on one model, by the rules above; `untested` is surface -> why not.

    >>> judge([], oracles=0).verdict
    'not enough evidence'
    """
    rules = VerdictRules(tuple(findings), oracles, target, guard, ulira, backdoor, tuple(held_out))
    verdict = rules.verdict()
    return Verdict(
        verdict=verdict,
        sentence=sentences.verdict_sentence(rules, verdict),
        reasons=tuple(sentences.reasons(rules)),
        limits=tuple(sentences.limits(rules, untested or {})),
        needed=tuple(sentences.needed(rules)) if verdict == NOT_ENOUGH else (),
        strayed=max((abs(one.test.difference.value) for one in rules.accusing), default=0.0),
    )
