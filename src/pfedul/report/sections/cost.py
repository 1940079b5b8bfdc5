"""What the removal cost, against training again without the client."""

from __future__ import annotations

from pfedul.base.text import MISSING, counted, human_bytes, number
from pfedul.report.blocks import Block, Section, Table, Text
from pfedul.report.material import Material
from pfedul.unlearn.outcome import AUDIT


def cheaper(material: Material) -> float | None:
    """CPU time of retraining divided by that of forgetting."""
    cost = material.evidence.get("cost") or {}
    forget, retrain = forgetting_seconds(material), cost.get("retrain_cpu_seconds")
    return retrain / forget if forget and retrain else None


def forgetting_seconds(material: Material) -> float | None:
    """CPU seconds of the removal, or else of the rehearsed one."""
    stages = material.request.get("stages")
    if stages:
        known = [cost["cpu_seconds"] for stage, cost in stages.items() if stage != AUDIT]
        return float(sum(known))
    rehearsed: float | None = (material.evidence.get("cost") or {}).get("forget_cpu_seconds")
    return rehearsed


def cost_section(material: Material) -> Section:
    """Forgetting compared with retraining, then stage by stage."""
    blocks = [Text(_summary(material)), *_comparison(material), _stages(material)]
    return Section.of("cost", "Cost against retraining", blocks)


def _summary(material: Material) -> str:
    times = cheaper(material)
    if times is None:
        return "Retraining was not measured, so the cost stands alone."
    word = (
        f"{times:,.1f} times cheaper than" if times >= 1 else f"{1 / times:,.1f} times the cost of"
    )
    return (
        f"In CPU time the removal was {word} training again without the client. "
        "The rehearsal costs more than both, since it trains the oracles; it is listed apart."
    )


def _comparison(material: Material) -> list[Block]:
    outcome, cost = material.outcome, material.evidence.get("cost") or {}
    if not outcome and not cost:
        return []
    sent = outcome.get("bytes_broadcast")
    retraining = _seconds(cost.get("retrain_cpu_seconds"))
    rows = {
        "CPU seconds": (_seconds(forgetting_seconds(material)), retraining),
        "global rounds": (_count(outcome.get("rounds")), _count(material.evidence.get("rounds"))),
        "sent to clients": (MISSING if sent is None else human_bytes(sent), MISSING),
    }
    pairs = [{"": name, "forgetting": of[0], "retraining": of[1]} for name, of in rows.items()]
    known = {
        "the rehearsal": "rehearsal_cpu_seconds",
        "training so far, of the clients that remain": "training_cpu_seconds",
    }
    others = [
        {"": name, "CPU seconds": _seconds(cost[key])}
        for name, key in known.items()
        if cost.get(key) is not None
    ]
    return [Table.of("Forgetting and retraining", pairs), Table.of("For comparison", others)]


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
