"""The unlearning methods, one file each: all that `pfedul forget --method` knows.

docs/methods-notes.md says how each was adapted, where it differs from its paper or published
code, and why. The list is in the order of tables. To add a method: a file, and a line here;
another package registers its own through the entry-point group `pfedul.methods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pfedul.base.registry import Registry
from pfedul.errors import PfedulError
from pfedul.records import ALL_RECORDS, NO_RECORDS, RECORDS

if TYPE_CHECKING:
    from pfedul.protocol import ClientWork
    from pfedul.unlearn.base import Method

METHODS: Registry[Method] = Registry(
    "method",
    {
        "pfedul": "pfedul.unlearn.pfedul.method:PFEDUL",
        "retrain": "pfedul.unlearn.methods.retrain:RETRAIN",
        "ga-naive": "pfedul.unlearn.methods.ga_naive:GA_NAIVE",
        "fine-tune": "pfedul.unlearn.methods.fine_tune:FINE_TUNE",
        "federaser": "pfedul.unlearn.methods.federaser:FEDERASER",
        "pga": "pfedul.unlearn.methods.pga:PGA",
        "knot": "pfedul.unlearn.methods.knot:KNOT",
        "fedrecovery": "pfedul.unlearn.methods.fedrecovery:FEDRECOVERY",
        "zerofu": "pfedul.unlearn.methods.distillation.zerofu:ZEROFU",
        "mimir": "pfedul.unlearn.methods.distillation.mimir:MIMIR",
        "fused": "pfedul.unlearn.methods.fused:FUSED",
        "fedosd": "pfedul.unlearn.methods.fedosd:FEDOSD",
        "not": "pfedul.unlearn.methods.negation:NOT",
        "sifu": "pfedul.unlearn.methods.sifu:SIFU",
        "none": "pfedul.unlearn.methods.none:NONE",
        "exclusion": "pfedul.unlearn.methods.exclusion:EXCLUSION",
        "one-more-round": "pfedul.unlearn.methods.one_more_round:ONE_MORE_ROUND",
        "budgeted-retrain": "pfedul.unlearn.methods.budgeted:BUDGETED_RETRAIN",
        "old-heads": "pfedul.unlearn.methods.old_heads:OLD_HEADS",
        "ct": "pfedul.unlearn.methods.ct:CT",
        "fedmemprune": "pfedul.unlearn.methods.fedmemprune:FEDMEMPRUNE",
        "recalibration": "pfedul.unlearn.methods.recalibration:RECALIBRATION",
    },
    group="pfedul.methods",
)


def client_work() -> dict[str, ClientWork]:
    """The client functions of all methods and of repair, by name: what a workbench carries."""
    from pfedul.unlearn.distil import DISTIL_SHARED
    from pfedul.unlearn.training import TRAIN_SHARED

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
    records = RECORDS.names()
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
