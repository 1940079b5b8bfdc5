"""Checkpoints of a method, from which a killed removal resumes.

They are kept in RUN/unlearning while a request is pending, one file for each phase,
replaced atomically. Their tensors still contain the targets, so they are deleted when
the request is honoured, refused or failed; leftovers of a kill are removed when the run is
next opened. Each has a seal that only the operator's key can make: whoever else can write to the
run does not decide what a removal ends with.
"""

from __future__ import annotations

import hmac
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfedul.base.keys import operator_key, secret_number
from pfedul.base.tensorfile import as_tensors, encode, read_file
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.store.folder import own_errors, sync
from pfedul.store.marker import mark
from pfedul.store.paths import UNLEARNING

Facts = dict[str, Any]


_PATIENCE = 20.0
"""A state is saved when this many times the duration of one save has passed since the last."""


class Notebook:
    """Owns the folder of one request; `key` identifies everything that decides the result.

    A method may keep further files in `folder`; they are deleted with the notes.
    """

    def __init__(self, run: Path, key: str) -> None:
        self._run = run
        self.folder = run / UNLEARNING / key
        self._saved_at = 0.0
        self._took = 0.0

    def read(self, phase: str) -> tuple[int, Tensors, Facts] | None:
        """The number of finished steps of a phase, and the state and facts after them."""
        try:
            state = self._unsealed(phase)
            facts = json.loads(bytes(state.pop(_FACTS).tolist()))
            return facts.pop("number"), state, facts
        except (PfedulError, ValueError, KeyError):  # no note, or a damaged or foreign one
            return None

    def write(self, phase: str, number: int, state: Tensors, facts: Facts, last: bool) -> None:
        """Save the state after a step; if steps are short, not after every one."""
        started = time.monotonic()
        if not last and started - self._saved_at < _PATIENCE * self._took:
            return
        self._sync_names()
        text = json.dumps({**facts, "number": number}).encode()
        self.keep(phase, {**state, _FACTS: torch.frombuffer(bytearray(text), dtype=torch.uint8)})
        self._saved_at = time.monotonic()
        self._took = self._saved_at - started

    def _sync_names(self) -> None:
        """What was kept must be there after a power cut if the state is that follows from it."""
        with own_errors(self._run):
            for folder in filter(Path.is_dir, (self.folder, *self.folder.glob("*"))):
                sync(folder)

    def keep(self, name: str, tensors: Tensors) -> None:
        """Save tensors durably, under a name that may be in a folder of its own."""
        data, file = encode({**tensors, _SEAL: self._seal(name, tensors)}), self._file(name)
        with own_errors(self._run):
            self.made_folder()
            file.parent.mkdir(exist_ok=True)
            draft = file.with_suffix(".new")
            draft.write_bytes(data)
            sync(draft)
            os.replace(draft, file)

    def made_folder(self) -> Path:
        """The folder, which is made if there is none; never the run itself, if that is gone."""
        (self._run / UNLEARNING).mkdir(mode=0o700, exist_ok=True)
        mark(self.folder)
        return self.folder

    def kept(self, name: str) -> Tensors | None:
        """What was kept under a name; None if nothing was."""
        return self._unsealed(name) if self._file(name).is_file() else None

    def _unsealed(self, name: str) -> Tensors:
        """The tensors of a note, without their seal; refuses what does not have the right one."""
        tensors = read_file(self._file(name))
        seal = tensors.pop(_SEAL, None)
        if seal is None or not torch.equal(seal, self._seal(name, tensors)):
            raise PfedulError(f"{self._file(name)} is not as your key sealed it; ask again.")
        return tensors

    def _seal(self, name: str, tensors: Tensors) -> Tensor:
        secret = secret_number(operator_key(), "notes of removals").to_bytes(16)
        seal = hmac.new(secret, f"{self.folder.name}/{name}\n".encode(), "sha256")
        seal.update(encode(tensors))
        return as_tensors(seal.hexdigest())["sha256"]

    def _file(self, phase: str) -> Path:
        return self.folder / f"{phase}.safetensors"


_FACTS, _SEAL = "(facts)", "(seal)"
