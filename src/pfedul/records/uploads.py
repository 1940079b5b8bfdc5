"""Uploads: what each client last sent, and in which round. PGA and one-shot exclusion read it."""

from __future__ import annotations

from pfedul.base.tensors import Tensors
from pfedul.records.base import Record, Recorder, Update, every_file_of, int_tensor
from pfedul.store.paths import record_file
from pfedul.store.store import Store

ROUND = "(round)"
"""Cannot clash with a tensor of a model: those names have no brackets."""


class UploadsRecorder(Recorder):
    """Replaces a client's file in every round that it takes part in."""

    def add(self, update: Update) -> None:
        file = record_file("uploads", update.client)
        self._store.stage(file, {**update.after, ROUND: int_tensor(update.number)})


def last_upload(store: Store, client: str) -> tuple[int, Tensors] | None:
    """The round of a client's last upload, and its shared tensors (statistics included)."""
    tensors = store.find(record_file("uploads", client))
    return None if tensors is None else (int(tensors.pop(ROUND)), tensors)


UPLOADS = Record(
    name="uploads",
    title="uploads",
    summary="each client's last upload of the shared tensors",
    memory="one copy of the shared tensors for each client",
    size=lambda of: of.clients * 4 * of.parameters,
    recorder=UploadsRecorder,
    folders=("uploads",),
    obsolete=every_file_of("uploads"),
)
