"""What the removal cost, against training again without the client."""

from __future__ import annotations

from pfedul.base.text import MISSING, counted, human_bytes, number
from pfedul.report.blocks import Block, Fold, Section, Table, Text
from pfedul.report.material import Material
from pfedul.unlearn.outcome import spent, stages_of


def price(material: Material) -> float | None:
    """CPU time of forgetting as a share of that of retraining."""
    forget, retrain = forgetting_seconds(material), retraining_seconds(material)
    return forget / retrain if forget and retrain else None


def retraining_seconds(material: Material) -> float | None:
    """CPU seconds of an oracle, or else of the rounds so far without the targets."""
    measured = (material.evidence.get("cost") or {}).get("retrain_cpu_seconds")
    return measured or material.outcome.get("retraining_cpu_seconds")


def forgetting_seconds(material: Material) -> float | None:
    """CPU seconds of the removal, or else of the rehearsed one; measuring is no part of it."""
    if material.request.get("stages"):
        return spent(stages_of(material.request)).cpu_seconds
    rehearsed: float | None = (material.evidence.get("cost") or {}).get("forget_cpu_seconds")
    return rehearsed


def cost_section(material: Material) -> Section:
    """Forgetting compared with retraining; stage by stage behind a fold."""
    stages = Fold.of("Stage by stage", *_measured_apart(material), _stages(material))
    blocks = [Text(_summary(material)), *_comparison(material), stages]
    return Section.of("cost", "Cost against retraining", blocks)


def _summary(material: Material) -> str:
    share = price(material)
    if share is None:
        return "Retraining was not measured, so the cost stands alone."
    word = (
        f"{1 / share:,.1f} times cheaper than" if share <= 1 else f"{share:,.1f} times the cost of"
    )
    return (
        f"In CPU time the removal was {word} training again without the client. A rehearsal with "
        "oracles costs more than both, since it trains them; it is not counted here."
    )


def _comparison(material: Material) -> list[Block]:
    outcome = material.outcome
    if not outcome:
        return []
    sent = outcome.get("bytes_broadcast")
    rounds = material.evidence.get("rounds") or material.run.get("rounds")
    rows = {
        "CPU seconds": (
            _seconds(forgetting_seconds(material)),
            _seconds(retraining_seconds(material)),
        ),
        "global rounds": (_count(outcome.get("rounds")), _count(rounds)),
        "sent to clients": (MISSING if sent is None else human_bytes(sent), MISSING),
    }
    pairs = [{"": name, "forgetting": of[0], "retraining": of[1]} for name, of in rows.items()]
    return [Table.of("Forgetting and retraining", pairs)]


def _measured_apart(material: Material) -> list[Block]:
    cost = material.evidence.get("cost") or {}
    known = {
        "the rehearsal": "rehearsal_cpu_seconds",
        "training so far, of the clients that remain": "training_cpu_seconds",
    }
    others = [
        {"": name, "CPU seconds": _seconds(cost[key])}
        for name, key in known.items()
        if cost.get(key) is not None
    ]
    return [Table.of("For comparison", others)]


def _seconds(value: float | None) -> str:
    return number(value, 2)


def _count(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}"


def _stages(material: Material) -> Table:
    stages = material.outcome.get("stages") or {}
    rows = [
        {
            "stage": name,
            "seconds": _seconds(stage["seconds"]),
            "CPU seconds": _seconds(stage["cpu_seconds"]),
        }
        for name, stage in stages.items()
    ]
    return Table.of(f"The removal in {counted(len(rows), 'stage')}", rows)
