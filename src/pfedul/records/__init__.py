"""What training keeps to make unlearning possible: one file for each record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.lazy import lazy
from pfedul.base.registry import Registry
from pfedul.errors import PfedulError

if TYPE_CHECKING:
    from pfedul.records.base import Record
    from pfedul.records.fisher import FisherRecord as FisherRecord
else:
    __getattr__ = lazy(__name__, {"FisherRecord": "pfedul.records.fisher"})

RECORDS: Registry[Record] = Registry(
    "record",
    {
        "fisher": "pfedul.records.fisher_on_disk:FISHER",
        "contributions": "pfedul.records.contributions:CONTRIBUTIONS",
        "norms": "pfedul.records.norms:NORMS",
        "uploads": "pfedul.records.uploads:UPLOADS",
        "sums": "pfedul.records.sums:SUMS",
        "psi": "pfedul.records.psi:PSI",
    },
)

ALL_RECORDS, NO_RECORDS = "all", "none"


def canonical_records(text: str) -> str:
    """Names of records joined by plus signs, in one order.

    >>> canonical_records("uploads+fisher"), canonical_records("none")
    ('fisher+uploads', 'none')
    """
    words = [word.strip() for word in text.split("+")]
    known = RECORDS.names()
    if NO_RECORDS in words and len(words) > 1:
        raise PfedulError(f"--record '{text}' asks for something and for none; leave one out.")
    for word in words:
        if word not in {*known, ALL_RECORDS, NO_RECORDS}:
            raise PfedulError(
                f"--record knows no '{word}'; records are {', '.join(known)}, or {ALL_RECORDS}, "
                f"or {NO_RECORDS}."
            )
    chosen = known if ALL_RECORDS in words else [name for name in known if name in words]
    return "+".join(chosen) or NO_RECORDS


def record_names(setting: str) -> list[str]:
    """The records that a run keeps, from the canonical form of its setting.

    >>> record_names("fisher+uploads"), record_names("none")
    (['fisher', 'uploads'], [])
    """
    return [] if setting == NO_RECORDS else setting.split("+")
