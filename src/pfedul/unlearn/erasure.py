"""Erasure: the commit of a removal deletes every file and row that belongs to the targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import obsolete_cluster_files
from pfedul.records import RECORDS
from pfedul.records.base import Erasure
from pfedul.run.run import Run
from pfedul.store.copies import obsolete_folders
from pfedul.store.erasure import count_rows, erase_rows
from pfedul.store.paths import REPORTS, held_file, personal_file
from pfedul.unlearn.options import ForgetOptions


def erase(
    run: Run, targets: Sequence[str], options: ForgetOptions, added: Callable[[str], Tensors]
) -> dict[str, int]:
    """Add the deletion of everything that belongs to the targets to the commit; returns counts.

    `added` is what repair rounds added to the shared parameters, of each remaining client.
    """
    store = run.store
    rows = count_rows(store.ledger, targets)
    if not options.entry.does.starts_over:
        erasure = replace(_erasure(run, targets, options), added=added)
        for record in RECORDS:
            record.renew(erasure)
    files = files_to_erase(run, targets, options)
    remaining = [client for client in run.clients if client not in targets]
    sizes = [store.locate(name).stat().st_size for name in files]
    sizes += _sizes(obsolete_folders(store.path, remaining))
    store.keep(erase_rows(store.ledger, targets), files)
    return {"files": len(sizes), "bytes": sum(sizes), "rows": rows}


def files_to_erase(run: Run, targets: Sequence[str], options: ForgetOptions) -> list[str]:
    """The files of the run that must be deleted with these targets.

    All reports are among them: they name the targets. So are all records if the method starts
    over, since they describe the old training.
    """
    store, erasure = run.store, _erasure(run, targets, options)
    names = [file(target) for file in (personal_file, held_file) for target in targets]
    for record in RECORDS:
        names += [*record.own_files(erasure.leaving), *record.obsolete(erasure)]
    if options.entry.does.starts_over:
        names += store.names("records/")
    names += obsolete_cluster_files(store, run.clusters, targets)
    return [name for name in dict.fromkeys([*names, *_reports(store.path)]) if store.has(name)]


def _erasure(run: Run, targets: Sequence[str], options: ForgetOptions) -> Erasure:
    return Erasure(
        store=run.store,
        split=run.bench.split,
        clients=tuple(run.clients),
        targets=tuple(targets),
        everything=options.forget_records == "all",
        excluded=options.excludes,
        clean=options.cleans,
        weighing=run.settings.weighing,
        clusters=run.clusters,
    )


def _sizes(folders: Sequence[Path]) -> list[int]:
    """Bytes of each file in the oracles and comparisons that are deleted after the commit."""
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return [file.stat().st_size for file in files]


def _reports(run: Path) -> list[str]:
    return sorted(file.relative_to(run).as_posix() for file in (run / REPORTS).rglob("*"))
