"""What methods say of records that are not there."""

from __future__ import annotations

from pfedul.errors import PfedulError
from pfedul.records import RECORDS
from pfedul.records.base import kind_of
from pfedul.unlearn.context import Work


def require_record(work: Work, kind: str) -> None:
    """Refuse where an earlier removal took the record with it."""
    if not any(kind_of(name) == kind for name in work.federation.store.names("records/")):
        raise PfedulError(
            f"The {RECORDS[kind].title} record, which the method '{work.name}' needs, was erased "
            "with an earlier request; train on to build a new one."
        )


def never_took_part(clients: list[str]) -> tuple[str, ...]:
    """The note about targets without a record; none where all have one."""
    if not clients:
        return ()
    return (f"{', '.join(clients)}: took part in no round since the record began",)
