"""The unlearning methods, one file each: all that `pfedul forget --method` knows.

docs/methods-notes.md says how each was adapted, where it differs from its paper or published
code, and why. The list is in the order of tables. To add a method: a file, and an import and an
entry here; another package registers its own through the entry-point group `pfedul.methods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pfedul.base.registry import Registry
from pfedul.errors import PfedulError
from pfedul.protocol import ClientWork
from pfedul.records import ALL_RECORDS, NO_RECORDS, RECORDS
from pfedul.unlearn.distil import DISTIL_SHARED
from pfedul.unlearn.methods.budgeted import BUDGETED_RETRAIN
from pfedul.unlearn.methods.ct import CT
from pfedul.unlearn.methods.distillation.mimir import MIMIR
from pfedul.unlearn.methods.distillation.zerofu import ZEROFU
from pfedul.unlearn.methods.exclusion import EXCLUSION
from pfedul.unlearn.methods.federaser import FEDERASER
from pfedul.unlearn.methods.fedmemprune import FEDMEMPRUNE
from pfedul.unlearn.methods.fedosd import FEDOSD
from pfedul.unlearn.methods.fedrecovery import FEDRECOVERY
from pfedul.unlearn.methods.fine_tune import FINE_TUNE
from pfedul.unlearn.methods.fused import FUSED
from pfedul.unlearn.methods.ga_naive import GA_NAIVE
from pfedul.unlearn.methods.knot import KNOT
from pfedul.unlearn.methods.negation import NOT
from pfedul.unlearn.methods.none import NONE
from pfedul.unlearn.methods.old_heads import OLD_HEADS
from pfedul.unlearn.methods.one_more_round import ONE_MORE_ROUND
from pfedul.unlearn.methods.pga import PGA
from pfedul.unlearn.methods.recalibration import RECALIBRATION
from pfedul.unlearn.methods.retrain import RETRAIN
from pfedul.unlearn.methods.sifu import SIFU
from pfedul.unlearn.pfedul.method import PFEDUL
from pfedul.unlearn.training import TRAIN_SHARED

METHODS = Registry(
    "method",
    PFEDUL,
    RETRAIN,
    GA_NAIVE,
    FINE_TUNE,
    FEDERASER,
    PGA,
    KNOT,
    FEDRECOVERY,
    ZEROFU,
    MIMIR,
    FUSED,
    FEDOSD,
    NOT,
    SIFU,
    NONE,
    EXCLUSION,
    ONE_MORE_ROUND,
    BUDGETED_RETRAIN,
    OLD_HEADS,
    CT,
    FEDMEMPRUNE,
    RECALIBRATION,
    group="pfedul.methods",
)


def client_work() -> dict[str, ClientWork]:
    """The client functions of all methods and of repair, by name: what a workbench carries."""
    work: dict[str, ClientWork] = {**TRAIN_SHARED, **DISTIL_SHARED}
    for method in METHODS:
        for name, function in method.client.items():
            if work.setdefault(name, function) is not function:
                raise PfedulError(
                    f"The method '{method.name}' has a client function '{name}', which another "
                    "method already has; rename it."
                )
    return work


def with_records_of_methods(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose `record` may name methods, for the records that these need."""
    record = settings.get("record")
    if not isinstance(record, str):
        return dict(settings)
    words = [word.strip() for word in record.split("+")]
    return {**settings, "record": "+".join(name for word in words for name in _records_of(word))}


def _records_of(word: str) -> Iterable[str]:
    methods = {method.name: method.needs.records for method in METHODS}
    records = [record.name for record in RECORDS]
    if word in {*records, ALL_RECORDS, NO_RECORDS}:
        return (word,)
    if word not in methods:
        helpful = ", ".join(name for name, needs in methods.items() if needs)
        raise PfedulError(
            f"--record knows no '{word}'; records are {', '.join(records)}; the methods "
            f"{helpful} stand for what they need; or {ALL_RECORDS}, or {NO_RECORDS}."
        )
    if not methods[word]:
        raise PfedulError(
            f"The method '{word}' needs no record, so leave it out of --record; "
            "'pfedul methods' says what it needs."
        )
    return methods[word]
