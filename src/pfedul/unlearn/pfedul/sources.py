"""Where a plan reads from: the records of a run, and why one may be missing."""

from __future__ import annotations

from pfedul.records import RECORDS
from pfedul.records.fisher_on_disk import StoredFisher
from pfedul.run.run import Run

NEVER_TOOK_PART = "took part in no round since records began, so that nothing is corrected"
NOBODY_TO_COMPARE = (
    "nobody else took part in a round since records began, so that nothing can be attributed: "
    "the shared tensors are the targets' work alone and should be trained anew"
)


def stored_fisher(run: Run) -> StoredFisher:
    """The Fisher record of a run, on disk."""
    return StoredFisher(run.store, run.clients, run.bench.split.layers)


def why_no_record(run: Run, name: str) -> str:
    """Why a record is missing, and what to do about it."""
    title = RECORDS[name].title
    if run.rounds == 0:
        return "This run has not been trained, so there is nothing to attribute; train it first."
    if name not in run.settings.records:
        return (
            f"This run keeps no {title} record, which the correction needs; train a run with "
            f"--record {name}, or choose another correction (--correction) or method (--method)."
        )
    return (
        f"The {title} record of this run was deleted with an earlier request (--forget-records "
        "all, or another method or correction); train on to build a new one."
    )
