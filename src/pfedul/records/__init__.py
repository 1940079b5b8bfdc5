"""What training keeps to make unlearning possible: one file for each record."""

from __future__ import annotations

from pfedul.base.registry import Registry
from pfedul.errors import PfedulError
from pfedul.records.contributions import CONTRIBUTIONS
from pfedul.records.exact import exact_fisher as exact_fisher
from pfedul.records.exact import rank_agreement as rank_agreement
from pfedul.records.fisher import FisherRecord as FisherRecord
from pfedul.records.fisher import fisher_noise as fisher_noise
from pfedul.records.fisher import updated_fisher as updated_fisher
from pfedul.records.fisher_on_disk import FISHER
from pfedul.records.norms import NORMS
from pfedul.records.psi import PSI
from pfedul.records.sums import SUMS
from pfedul.records.uploads import UPLOADS

RECORDS = Registry("record", FISHER, CONTRIBUTIONS, NORMS, UPLOADS, SUMS, PSI)

ALL_RECORDS, NO_RECORDS = "all", "none"


def canonical_records(text: str) -> str:
    """Names of records joined by plus signs, in one order.

    >>> canonical_records("uploads+fisher"), canonical_records("none")
    ('fisher+uploads', 'none')
    """
    words = [word.strip() for word in text.split("+")]
    known = [record.name for record in RECORDS]
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
