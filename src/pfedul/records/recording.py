"""All the records of a run, brought up to date with one round."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pfedul.base.tensorfile import encode, read_file
from pfedul.base.tensors import Tensors, size_in_bytes
from pfedul.base.threads import one_thread
from pfedul.protocol import Reply, RoundResult
from pfedul.records import RECORDS
from pfedul.records.base import Keeping, Update, WholeRound
from pfedul.store.folder import own_errors
from pfedul.store.private import make_private

IN_MEMORY = 64 * 2**20
"""Bytes of the uploads of a round that are held in memory."""


class RoundRecorder:
    """Hands each reply to every record; `seconds` is the time that this took."""

    def __init__(
        self, keeping: Keeping, names: Sequence[str], number: int, before: Tensors
    ) -> None:
        self._keeping, self._number, self._before = keeping, number, before
        self._recorders = [RECORDS[name].recorder(keeping) for name in names]
        self._looking_back = [item for item in self._recorders if item.looks_back]
        self._spool = keeping.store.scratch
        self._clients: list[str] = []
        self._held: dict[str, Tensors] = {}
        self._room = IN_MEMORY
        self.seconds = 0.0

    def add(self, reply: Reply) -> None:
        """Take in a reply that was accepted."""
        with self._measured():
            self._clients.append(reply.client)
            for recorder in self._recorders:
                recorder.add(self._update(reply.client, reply.shared))
            if self._looking_back:
                self._keep(reply)

    def finish(self, result: RoundResult) -> None:
        """The round is complete, with this result."""
        keeping = self._keeping
        with self._measured():
            whole = WholeRound(
                number=self._number,
                before=self._before,
                after=result.shared,
                shares=result.shares,
                parameters=tuple(keeping.clusters.names(keeping.split.parameters)),
                noise=result.noise,
            )
            for client in self._clients if self._looking_back else ():
                self._look_back(client, whole)
            for recorder in self._recorders:
                recorder.finish(whole)
            shutil.rmtree(self._spool, ignore_errors=True)

    def _keep(self, reply: Reply) -> None:
        """Until the end of the round: in memory as far as there is room, and then on disk."""
        size = size_in_bytes(reply.shared)
        if size <= self._room:
            self._room -= size
            self._held[reply.client] = {name: t.clone() for name, t in reply.shared.items()}
            return
        with own_errors(self._spool):
            make_private(self._spool)
            self._spooled(reply.client).write_bytes(encode(reply.shared))

    def _look_back(self, client: str, whole: WholeRound) -> None:
        """A function of its own, so the upload is freed before the next one is read."""
        upload = self._held.pop(client, None) or read_file(self._spooled(client))
        update = self._update(client, upload)
        for recorder in self._looking_back:
            recorder.look_back(update, whole)

    def _spooled(self, client: str) -> Path:
        """An upload of the current round on disk."""
        return self._spool / f"{client}.safetensors"

    def _update(self, client: str, after: Tensors) -> Update:
        before = self._keeping.clusters.of(self._before, client)
        return Update(self._number, client, before, after)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        started = time.perf_counter()
        # The last bits of sums may depend on the number of threads
        with one_thread():
            yield
        self.seconds += time.perf_counter() - started
