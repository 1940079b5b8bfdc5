"""The evidence document: everything an audit found, as plain data (docs/json.md, `rehearse`)."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.surfaces import SURFACES
from pfedul.audit.attacks.base import Estimate
from pfedul.audit.attacks.roc import auc
from pfedul.audit.attacks.threshold import THRESHOLD
from pfedul.audit.attacks.ulira import ACCURACY, ULIRA
from pfedul.audit.evidence import measures
from pfedul.audit.judge.case import Examiner
from pfedul.audit.judge.distances import distances
from pfedul.audit.judge.paired_test import PairedTest, overall_removed
from pfedul.audit.judge.rules import Finding
from pfedul.audit.models import Retrained
from pfedul.base.clock import now
from pfedul.base.threads import one_core
from pfedul.evaluation import preservation
from pfedul.protocol import OnStage, Workbench
from pfedul.run.run import Run
from pfedul.store.paths import SETTINGS_FILE
from pfedul.unlearn.outcome import Outcome, spent
from pfedul.version import __version__

FORMAT = 1

Row = dict[str, Any]


def circumstances(run: Run, kind: str, command: str, level: str) -> Row:
    """When, with what and how the audit was made."""
    settings = run.store.path / SETTINGS_FILE
    return {
        "format": FORMAT,
        "kind": kind,
        "made_at": now(),
        "command": command,
        "versions": {
            "pfedul": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "level": level,
        "seed": run.settings.seed,
        "rounds": run.rounds,
        "configuration": settings.read_text(encoding="utf-8"),
    }


def examined(
    examiner: Examiner,
    unlearned: Sequence[Answers],
    bench: Workbench,
    *,
    gone: Mapping[str, str],
    on_stage: OnStage,
) -> Row:
    """All that was found in a case. `gone` are surfaces that can no longer be looked through."""
    on_stage("attacks", 0, 1)
    with one_core():
        found = _examined(examiner, unlearned, untested_surfaces(bench, gone))
    on_stage("attacks", 1, 1)
    return found


def _examined(examiner: Examiner, unlearned: Sequence[Answers], untested: Mapping[str, str]) -> Row:
    case, controls = examiner.case, examiner.controls()
    judged, models = case.judged, (case.models, len(case.oracles))
    rows = measures.model_measures(examiner.book, case.surfaces, *models)
    if len(unlearned) > 1:
        rows += measures.population_measures(case.samples, judged, unlearned, case.oracles)
    verdict = examiner.judged(
        case.candidate,
        ulira=_ulira(rows),
        held_out=[control.verdict for control in examiner.held_out],
        untested=untested,
    )
    findings = examiner.findings(case.candidate, case.oracles)
    return {
        "samples": case.samples.counts(),
        "verdict": verdict.as_json(),
        "removed": _figure_or_none(overall_removed([finding.test for finding in findings])),
        "surfaces": _surfaces(untested),
        "tests": [test_row(finding) for finding in findings],
        "measures": rows,
        "controls": [control.as_json() for control in controls],
        "roc": measures.curves(examiner.book, judged, *models),
        "distributions": measures.distributions(judged, case.models),
        "distance": distances(case.candidate, case.oracles, case.untouched),
        "backdoor": _backdoor(examiner),
    }


def untested_surfaces(bench: Workbench, gone: Mapping[str, str]) -> dict[str, str]:
    """Surfaces that this personalisation does not have, or that are gone, each with the reason."""
    missing = {surface.name: surface.missing(bench) for surface in SURFACES if surface.judged}
    return {name: why for name, why in missing.items() if why is not None} | dict(gone)


def surfaces_part(bench: Workbench) -> list[Row]:
    """What the level `instant` looks through: the mean of the remaining models, not the worst."""
    rows = _surfaces(untested_surfaces(bench, {}))
    return [row for row in rows if row["name"] != "worst"]


WITHOUT_ORACLES: Row = {
    **dict.fromkeys(("measures", "controls", "roc", "distributions", "distance"), ()),
    **dict.fromkeys(("relearn", "backdoor")),
}
"""Parts of the document that only oracles can fill."""


def _surfaces(untested: Mapping[str, str]) -> list[Row]:
    return [
        {
            "name": surface.name,
            "title": surface.title,
            "summary": surface.summary,
            "available": surface.name not in untested,
            "reason": untested.get(surface.name),
        }
        for surface in SURFACES
        if surface.judged
    ]


def _ulira(rows: Sequence[Row]) -> Estimate | None:
    """The surface on which unlearned models differ most clearly from retrained ones."""
    found = [row for row in rows if row["attack"] == ULIRA.name]
    if not found:
        return None
    worst = max(found, key=lambda row: row["interval"][0])
    return Estimate(ACCURACY, worst["value"], tuple(worst["interval"]))


def test_row(finding: Finding) -> Row:
    """One attack on one surface: its figures, and what they say."""
    found = finding.test
    return {
        "surface": finding.surface,
        "attack": finding.attack,
        "metric": found.candidate.metric.name,
        "best": found.candidate.metric.best,
        "figures": _figures(found),
        "difference": found.difference.as_json(),
        "spread": found.spread,
        "untouched_difference": _figure_or_none(found.untouched_difference),
        "reduction": _figure_or_none(found.reduction),
        "removed": _figure_or_none(found.removed),
        "smallest_visible": found.smallest_visible,
        "finding": found.finding,
    }


def _figures(found: PairedTest) -> Row:
    oracles = {f"oracle {n}": figure.as_json() for n, figure in enumerate(found.oracles, start=1)}
    ours = {"candidate": found.candidate.as_json()}
    return {**ours, "untouched": _figure_or_none(found.untouched), **oracles}


def _figure_or_none(figure: Estimate | None) -> Row | None:
    return None if figure is None else figure.as_json()


def _backdoor(examiner: Examiner) -> Row | None:
    backdoor = examiner.backdoor(examiner.case.candidate, examiner.case.oracles)
    planted = examiner.case.samples.backdoor
    if backdoor is None or planted is None:
        return None
    models = examiner.case.models
    figures = {name: examiner.trigger_success(m).as_json() for name, m in models.items()}
    return {"label": planted.label, "figures": figures, "finding": backdoor.finding}


OUTCOME = (
    *("pps", "pps_interval", "cfi", "cfi_interval", "rounds", "bytes_broadcast"),
    *("stages", "erased", "notes", "retraining_cpu_seconds"),
)


def removal_part(
    run: Run, outcome: Outcome, oracles: Sequence[Retrained], twins: Sequence[Retrained] = ()
) -> Row:
    """What the document says of the removal, and of the federations it is measured against."""
    known = outcome.as_json()
    return {
        "targets": known["targets"],
        "options": known["options"],
        "oracles": [oracle.as_json(run.rounds) for oracle in oracles],
        "twins": [twin.as_json(run.rounds) for twin in twins],
        "plan": known["plan"],
        "outcome": {key: known[key] for key in OUTCOME},
        "preservation": {"oracle": oracle_preservation(outcome.before, oracles)},
        "cost": _cost(outcome, oracles),
    }


def _cost(outcome: Outcome, oracles: Sequence[Retrained]) -> Row:
    """In CPU seconds; neither measuring nor what targets spent is part of it."""
    retraining = [oracle.cpu_seconds for oracle in oracles]
    return {
        "forget_cpu_seconds": spent(outcome.stages).cpu_seconds,
        "retrain_cpu_seconds": fmean(retraining) if retraining else None,
        "training_cpu_seconds": outcome.retraining_cpu_seconds,
    }


def client_figures(
    clients: Iterable[str],
    outcome: Outcome,
    oracles: Sequence[Retrained],
    examiner: Examiner | None,
    scores: Mapping[str, Sequence[float]],
) -> dict[str, Row]:
    """What is known of single remaining clients: rows of their own, erased when they leave."""
    aucs = {} if examiner is None else client_aucs(examiner)
    return {
        client: {
            "scores": list(scores.get(client, ())),
            "before": outcome.before.get(client),
            "after": outcome.after.get(client),
            "oracle": [oracle.accuracies.get(client) for oracle in oracles],
            "auc": aucs.get(client),
        }
        for client in clients
    }


def oracle_preservation(before: Mapping[str, float], oracles: Sequence[Retrained]) -> Row:
    """PPS and CFI of retraining: the paper assigns 1, this is what its formulas give.

    Of clients whose accuracy is known before and in the oracle; None where there are none.
    """
    found = []
    for oracle in oracles:
        both = [client for client in before if client in oracle.accuracies]
        if any(before[client] > 0 for client in both):
            known = {client: before[client] for client in both}
            found.append(preservation(known, {name: oracle.accuracies[name] for name in both}))
    return {
        "assigned": 1.0,
        "pps": float(np.mean([one.pps for one in found])) if found else None,
        "cfi": float(np.mean([one.cfi for one in found])) if found else None,
    }


def client_aucs(examiner: Examiner) -> dict[str, Row]:
    """AUC of the loss attack through each remaining client's model, before, after and retrained."""
    case = examiner.case
    if not any(surface.name == "remaining" for surface in case.surfaces):
        return {}
    clients = [view.name for view in case.candidate.views["remaining"]]

    def aucs(model: Answers) -> list[float]:
        scores = examiner.book.of(THRESHOLD, "remaining", model)
        return [auc(*pair) for pair in zip(scores.members[0], scores.nonmembers[0], strict=True)]

    ours = aucs(case.candidate)
    before = None if case.untouched is None else aucs(case.untouched)
    oracles = np.mean([aucs(oracle) for oracle in case.oracles], axis=0)
    return {
        client: {
            "candidate": ours[place],
            "untouched": None if before is None else before[place],
            "oracle": float(oracles[place]),
        }
        for place, client in enumerate(clients)
    }
