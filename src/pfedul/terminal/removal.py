"""Plans and outcomes of removals in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from pfedul.base.text import asked_words, human_bytes
from pfedul.terminal.console import console, line, table
from pfedul.unlearn.outcome import spent, stages_of
from pfedul.unlearn.pfedul.result import Plan

_COLOURS = (17, 18, 19, 26, 32, 38, 44, 50, 86, 122)
"""Ten terminal colours from dark blue to light green, in even steps of brightness."""

_SHADES = " ░▒▓█"
"""The same without colours, for files and pipes."""


def print_plan(plan: Plan) -> None:
    """Scores as bars, the chosen layers, and how far each will move."""
    largest = max((layer.score for layer in plan.layers), default=0.0) or 1.0
    rows = [
        {
            "layer": layer.name,
            "size": f"{layer.parameters:,}",
            "score": f"{layer.score:.4f}",
            "": "█" * round(12 * layer.score / largest),
            "chosen": "yes" if layer.selected else "",
            "change": f"{layer.relative_change:.1e}" if layer.selected else "",
            "at bound": f"{layer.at_bound:.1%}" if layer.selected else "",
        }
        for layer in plan.layers
    ]
    correction = plan.as_json()["correction"]
    if rows:
        table(f"plan to forget {', '.join(plan.targets)} ({correction})", rows)
        line(f"threshold {plan.threshold:.4f}, {len(plan.selected)} of {len(rows)} layers chosen")
    for note in plan.notes:
        line(f"Note: {note}.")


def print_agreement(exact: Sequence[float], rank: float | None) -> None:
    """The exact scores, in the order of the table, and how well the recorded ones rank."""
    line(f"exact scores: {', '.join(f'{score:.4f}' for score in exact)}")
    words = "too few layers, or equal scores" if rank is None else f"{rank:.3f}"
    line(f"rank agreement of recorded and exact scores (Spearman): {words}")


def print_heat_map(scores: Mapping[str, Sequence[float]], layers: Sequence[str]) -> None:
    """Clients x layers; a lighter field is a higher score."""
    values = [value for row in scores.values() for value in row]
    low, high = min(values), max(values)
    width = max(map(len, scores))
    for client, row in scores.items():
        text = Text(f"{client:<{width}} ")
        for value in row:
            text.append_text(_field((value - low) / ((high - low) or 1.0)))
        text.append(f"  {min(row):.3f} to {max(row):.3f}")
        console.print(text, soft_wrap=True)
    line(f"{len(layers)} layers from {layers[0]} to {layers[-1]}; scores {low:.3f} to {high:.3f}")


def _field(share: float) -> Text:
    if console.is_terminal:
        return Text("  ", style=f"on color({_COLOURS[round((len(_COLOURS) - 1) * share)]})")
    return Text(2 * _SHADES[round((len(_SHADES) - 1) * share)])


def print_outcome(outcome: dict[str, Any]) -> None:
    """What a removal did, whether it forgot, what the others kept and what it cost."""
    chosen = [layer["name"] for layer in outcome["plan"]["layers"] if layer["selected"]]
    _print_verdict(outcome)
    _preserved(outcome)
    _cost(outcome)
    verb = "corrected" if outcome["plan"]["threshold"] is not None else "changed"
    line(f"{verb:<11} {', '.join(chosen) or 'no layer'} ({outcome['plan']['correction']})")
    if outcome["asked"]:
        line(f"{'request':<11} {asked_words(outcome['asked'])}")
    erased = outcome["erased"]
    size = human_bytes(erased["bytes"])
    line(f"erased      {erased['files']} files ({size}), {erased['rows']} rows of the ledger")
    before, after = outcome["shared_sha256_before"], outcome["shared_sha256_after"]
    line(f"shared      {before[:16]} -> {after[:16]}")
    _before_and_after(outcome["before"], outcome["after"])
    for note in outcome["notes"]:
        line(f"Note: {note}.")
    for target, state in outcome["erased_at_client"].items():
        line(f"{target}: {state}.")
    if outcome["not_recalibrated"]:
        line(f"Not recalibrated yet: {', '.join(outcome['not_recalibrated'])}.")


def _print_verdict(outcome: Mapping[str, Any]) -> None:
    removed = f"Removed {', '.join(outcome['targets'])} (request {outcome['request']})"
    if outcome["audit"] is None:
        line(f"{removed}. What was forgotten was not measured.")
        return
    verdict = outcome["audit"]["verdict"]
    line(f"{removed}: {verdict['verdict']}.")
    line(f"{'evidence':<11} {verdict['sentence']}")


def _before_and_after(before: Mapping[str, float], after: Mapping[str, float]) -> None:
    rows = [
        {
            "client": client,
            "before": f"{before[client]:.1%}",
            "after": f"{after[client]:.1%}",
            "change": f"{after[client] - before[client]:+.1%}",
        }
        for client in before
    ]
    table("accuracy of the remaining clients", rows)


def _preserved(outcome: Mapping[str, Any]) -> None:
    for key in ("pps", "cfi"):
        interval = outcome[f"{key}_interval"]
        if interval is None:
            continue
        words = f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f}): {_MEANINGS[key]}"
        line(f"{key.upper():<11} {outcome[key]:.3f}{words}")
    if outcome["undefined"]:
        line(f"Left out of both, with accuracy 0 before: {', '.join(outcome['undefined'])}.")


_MEANINGS = {
    "pps": "what the remaining clients kept of their accuracy",
    "cfi": "how evenly they kept it, 1 is best",
}


def _cost(outcome: Mapping[str, Any]) -> None:
    if outcome.get("retraining_cpu_seconds"):
        own = spent(stages_of(outcome)).cpu_seconds
        share = own / outcome["retraining_cpu_seconds"]
        line(f"{'price':<11} {share:.1%} of the CPU time of retraining, by the rounds so far")
    parts = [
        f"{name} {cost['seconds']:.2f} s ({cost['cpu_seconds']:.2f} s CPU)"
        for name, cost in outcome["stages"].items()
    ]
    line(f"cost        {', '.join(parts)}")
    sent = human_bytes(outcome["bytes_broadcast"])
    back = human_bytes(outcome["bytes_uploaded"])
    line(f"global      {outcome['rounds']} rounds, {sent} broadcast, {back} uploaded")
