"""The questions of the first page: what was asked, what was done, what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from pfedul.base.text import asked_words, counted, human_bytes, joined, moment, percent, sentence
from pfedul.report.material import Material
from pfedul.report.sections.clients import points, worst_client
from pfedul.report.sections.cost import forgetting_seconds, retraining_seconds

Fact = tuple[str, str]


def facts_of(material: Material) -> tuple[Fact, ...]:
    """Question and answer; without one for what is not known."""
    answers = {
        "What was asked": _asked(material),
        "What was done": _done(material),
        "What it cost the others": _cost_to_others(material),
        "What it took": _took(material),
    }
    return tuple((question, words) for question, words in answers.items() if words)


def _asked(material: Material) -> str:
    if not material.targets:
        return ""
    who = f"To forget {joined(material.targets)}"
    if not material.request:
        return f"{who}: on trial, in a rehearsal. Nobody's request was carried out."
    asked = material.request.get("asked") or {}
    words = f"; {asked_words(asked)}" if asked.get("due") else ""
    number = f"Request {material.request['request']} of this run"
    return f"{who}{words}. {number}, made {moment(material.request.get('asked_at'))}."


def _done(material: Material) -> str:
    if not material.request:
        rehearsed = "Nothing yet in the run. The removal was done and measured on a sealed copy."
        return rehearsed if material.evidence else "Nothing."
    parts = [sentence(part) for part in (_changed(material), _erased(material)) if part]
    return " ".join([*parts, f"Finished {moment(material.request.get('finished_at'))}."])


def _changed(material: Material) -> str:
    layers = (material.plan or {}).get("layers") or ()
    method = material.options.get("method", "not written down")
    if not layers:
        return f"the shared model was replaced by the method {method}"
    chosen = sum(bool(layer["selected"]) for layer in layers)
    repairs = material.options.get("repair_rounds")
    more = f", then repaired in {counted(repairs, 'round')}" if repairs else ""
    return (
        f"{chosen} of {counted(len(layers), 'shared layer')} were corrected by the method "
        f"{method}{more}; each remaining client then refitted its own part"
    )


def _erased(material: Material) -> str:
    erased = material.outcome.get("erased")
    if not erased:
        return ""
    files = f"{counted(erased['files'], 'file')} ({human_bytes(erased['bytes'])})"
    rows = counted(erased["rows"], "row")
    return f"what the run held of the client was erased: {files} and {rows} of the ledger"


def _cost_to_others(material: Material) -> str:
    return " ".join(_costs_to_others(material))


def _costs_to_others(material: Material) -> Iterator[str]:
    known = material.accuracies()
    if known:
        before, after = (fmean(pair[place] for pair in known.values()) for place in (0, 1))
        worst = worst_client(known)
        change = points(known[worst][1] - known[worst][0])
        yield (
            f"Mean accuracy of {counted(len(known), 'remaining client')}: {percent(before)} "
            f"before, {percent(after)} after. Worst off is {worst} ({change})."
        )
    pps, ends = material.outcome.get("pps"), material.outcome.get("pps_interval")
    if pps is not None:
        between = ""
        if ends:
            between = f", with 95 % confidence {100 * ends[0]:.0f} % to {100 * ends[1]:.0f} %"
        yield f"They kept {100 * pps:.0f} % of their accuracy (PPS{between})."


def _took(material: Material) -> str:
    seconds, retraining = forgetting_seconds(material), retraining_seconds(material)
    if seconds is None:
        return ""
    words, rounds = f"{seconds:.2f} seconds of computing (CPU)", material.outcome.get("rounds")
    if rounds is not None:
        words += f" and {counted(rounds, 'round')} with the clients"
    if not retraining:
        return f"{words}. Training again without the client was not measured."
    in_all = f"{retraining:.2f} seconds"
    if "rounds" in material.run:
        in_all += f" and {counted(material.run['rounds'], 'round')}"
    share = 100 * seconds / retraining
    return f"{words}: {share:.0f} % of training again without the client ({in_all})."
