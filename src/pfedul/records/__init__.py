"""What training keeps so that a client can be forgotten: one file each."""

from __future__ import annotations

from collections.abc import Iterable

from pfedul.base.registry import Registry
from pfedul.errors import PfedulError
from pfedul.records.exact import exact_fisher as exact_fisher
from pfedul.records.exact import rank_agreement as rank_agreement
from pfedul.records.fisher import FisherRecord as FisherRecord
from pfedul.records.fisher import FisherSource as FisherSource
from pfedul.records.fisher import fisher_noise as fisher_noise
from pfedul.records.fisher import updated_fisher as updated_fisher
from pfedul.records.fisher_on_disk import FISHER
from pfedul.records.norms import NORMS
from pfedul.records.psi import PSI
from pfedul.records.sums import SUMS
from pfedul.records.uploads import UPLOADS

RECORDS = Registry("record", FISHER, NORMS, UPLOADS, SUMS, PSI)

ALL, NONE = "all", "none"


def canonical_records(text: str) -> str:
    """Names of records and methods joined by plus signs, as names of records in one order.

    >>> canonical_records("uploads+fisher"), canonical_records("none")
    ('fisher+uploads', 'none')
    """
    words = [word.strip() for word in text.split("+")]
    if NONE in words and len(words) > 1:
        raise PfedulError(f"--record '{text}' asks for something and for none; leave one out.")
    wanted = {name for word in words for name in _meant(word)}
    return "+".join(record.name for record in RECORDS if record.name in wanted) or NONE


def record_names(setting: str) -> list[str]:
    """The records that a run keeps, from the canonical form of its setting.

    >>> record_names("fisher+uploads"), record_names("none")
    (['fisher', 'uploads'], [])
    """
    return [] if setting == NONE else setting.split("+")


def _meant(word: str) -> Iterable[str]:
    # Imported here: methods know of settings, which are checked with this function.
    from pfedul.unlearn.methods import METHODS

    known = {record.name: (record.name,) for record in RECORDS}
    methods = {method.name: method.needs for method in METHODS if method.needs}
    if word in {ALL, NONE}:
        return known if word == ALL else ()
    if word not in known | methods and any(word == method.name for method in METHODS):
        raise PfedulError(
            f"The method '{word}' needs no record, so leave it out of --record; "
            "'pfedul methods' says what it needs."
        )
    if word not in known | methods:
        raise PfedulError(
            f"--record knows no '{word}'; records are {', '.join(known)}; the methods "
            f"{', '.join(methods)} stand for what they need; or {ALL}, or {NONE}."
        )
    return (known | methods)[word]
