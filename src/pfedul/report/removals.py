"""What removals of one client left, side by side: read from the ledger, drawn by `picture.py`.

Only evidence without oracles is taken (level `instant`): every removal measures it, and so does
every rehearsal of that level. It needs no reference but 1/2, so removals can be compared directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.base.names import ORDINARY
from pfedul.base.text import counted
from pfedul.errors import PfedulError
from pfedul.report.material import Json, done_request
from pfedul.report.sections.instant import is_instant
from pfedul.store.audits import HASHES, REHEARSAL, read_audits
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import read_outcome, spent, stages_of
from pfedul.unlearn.pfedul.corrections import CORRECTIONS


@dataclass(frozen=True)
class Removal:
    """One way to forget the targets, with what was measured of it.

    `price` is its CPU time as a share of that of retraining, by the rounds so far.
    """

    targets: tuple[str, ...]
    name: str
    hashes: Json
    verdict: str
    tests: Sequence[Json]
    samples: Json
    pps: float | None
    price: float | None


def removals_of(run: Path, number: int | None = None) -> list[Removal]:
    """All that was measured from the same tensors, with the removal itself as the last one.

    About the removal with that number, or the newest; before any, about the newest rehearsal.
    """
    require_run(run)
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        request = done_request(ledger, number)
        outcome = None if request is None else read_outcome(ledger, request).as_json()
        audits = [audit for audit in read_audits(ledger) if audit.kind == REHEARSAL]
    found = [_rehearsed(audit.evidence) for audit in audits if is_instant(audit.evidence)]
    found += [] if outcome is None else [_removed(outcome)]
    alike = _alike(found)
    if not alike:
        raise PfedulError(
            f"There is nothing to draw: of {run.name} no removal was measured without oracles; "
            "call pfedul rehearse RUN --client ID, or pfedul forget without --no-audit."
        )
    return alike


def _alike(found: Sequence[Removal]) -> list[Removal]:
    """Those that start where the last one does; of several with one outcome the last."""
    kept = {_end(one): one for one in found if one.tests and _start(one) == _start(found[-1])}
    last = {} if not found else {_end(found[-1])}
    return sorted(kept.values(), key=lambda one: _end(one) in last)


def _start(removal: Removal) -> tuple[Any, ...]:
    return frozenset(removal.targets), removal.hashes["shared_before"]


def _end(removal: Removal) -> tuple[Any, ...]:
    return removal.hashes["shared_after"], removal.hashes["state_after"]


def _rehearsed(evidence: Json) -> Removal:
    spent_on_it = evidence["cost"]["forget_cpu_seconds"]
    return _removal(evidence, evidence["outcome"], evidence, spent_on_it)


def _removed(outcome: Json) -> Removal:
    hashes = {key: outcome[name] for key, (name, _) in HASHES.items()}
    evidence = {**(outcome["audit"] or {}), "hashes": hashes}
    return _removal(outcome, outcome, evidence, spent(stages_of(outcome)).cpu_seconds)


def _removal(asked: Json, outcome: Json, evidence: Json, cpu_seconds: float) -> Removal:
    retraining = outcome.get("retraining_cpu_seconds")
    return Removal(
        targets=tuple(asked["targets"]),
        name=removal_name(asked["options"]),
        hashes=evidence["hashes"],
        verdict=(evidence.get("verdict") or {}).get("verdict", ""),
        tests=tuple(evidence.get("tests") or ()),
        samples=evidence.get("samples") or {},
        pps=outcome.get("pps"),
        price=cpu_seconds / retraining if retraining else None,
    )


def removal_name(options: Json) -> str:
    """How the removal is asked for, in short.

    >>> removal_name({"method": "pfedul", "correction": "reset:fraction=0.3", "repair_rounds": 1})
    '--correction reset:fraction=0.3, 1 repair round'
    >>> removal_name({"method": "retrain"})
    '--method retrain'
    """
    words, rounds = _method_words(options), options.get("repair_rounds")
    if rounds:
        kind = options.get("repair") or ORDINARY
        words += f", {counted(rounds, f'{kind} repair round'.removeprefix(f'{ORDINARY} '))}"
    return f"the default ({words.partition(' ')[2]})" if _is_usual(options) else words


def _is_usual(options: Json) -> bool:
    """Whether the options are the defaults; a large share of the samples has more rounds."""
    usual = ForgetOptions().as_json()
    fewest = usual.pop("repair_rounds")
    return usual.items() <= options.items() and options["repair_rounds"] >= fewest


def _method_words(options: Json) -> str:
    correction = options.get("correction")
    if correction is None:
        return f"--method {options['method']}"
    name = correction.partition(":")[0]
    usual = name in {entry.name for entry in CORRECTIONS} and CORRECTIONS.canonical(name)
    return f"--correction {name if usual == correction else correction}"
