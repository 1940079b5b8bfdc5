"""A client's own folder: the personal tensors that never leave it.

    FOLDER/FEDERATION/CLIENT/SHA256.safetensors   personal tensors, named after their content
    FOLDER/receipts/FEDERATION-CLIENT.json        after an erasure: what was erased, and when

A round writes new tensors next to those it started from. Only the server knows which
of them count, since its commit may still fail. So the next order names the tensors to
start from, and everything else is deleted then.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from pfedul.base.clock import now
from pfedul.base.hashes import digest, digest_file, is_digest
from pfedul.base.tensorfile import encode, read_file
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.flower.deployment.layout import PRIVATE, write
from pfedul.store.folder import sync

_SAFE_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def own_folder(folder: Path, federation: str, client: str) -> Path:
    """Where a client's tensors of a federation are; names come from elsewhere, so are checked."""
    for name in (federation, client):
        if not _SAFE_NAME.fullmatch(name):
            raise PfedulError(f"'{name}' is not the name of a federation or a client.")
    return folder / federation / client


def read_held(folder: Path, sha256: str) -> Tensors:
    """The personal tensors with this hash."""
    if not is_digest(sha256):
        raise PfedulError(f"'{sha256}' does not name personal tensors.")
    path = _file(folder, sha256)
    if not path.is_file():
        raise PfedulError(f"The personal tensors {sha256[:12]} are not in {folder}.")
    if digest_file(path) != sha256:
        raise PfedulError(f"The file {path} is damaged; restore it from a backup.")
    return read_file(path)


def keep_only(folder: Path, sha256: str | None) -> None:
    """Delete personal tensors of rounds that were never committed, or are past."""
    for path in folder.glob("*.safetensors"):
        if path.stem != sha256:
            path.unlink()


def write_held(folder: Path, tensors: Tensors) -> str:
    """Write personal tensors, whole or not at all; returns their hash."""
    data = encode(tensors)
    sha256 = digest(data)
    write(_file(folder, sha256), data, PRIVATE)
    sync(folder)
    return sha256


def erase(folder: Path, federation: str, client: str) -> dict[str, Any]:
    """Erase all that this federation left here; returns a receipt, which is kept here as well."""
    own = own_folder(folder, federation, client)
    found = sorted(path for path in own.rglob("*") if path.is_file())
    receipt = {
        "client": client,
        "federation": federation,
        "erased_at": now(),
        "files": len(found),
        "bytes": sum(path.stat().st_size for path in found),
        "sha256": [path.stem for path in found],
    }
    shutil.rmtree(own, ignore_errors=True)
    if own.exists():
        raise PfedulError(f"The folder {own} could not be erased; remove it by hand.")
    with suppress(OSError):  # another client of the same folder may still be there
        own.parent.rmdir()
    return _kept_receipt(folder / "receipts" / f"{federation}-{client}.json", receipt)


def _kept_receipt(path: Path, receipt: dict[str, Any]) -> dict[str, Any]:
    """A second erasure finds nothing more: the first receipt says what there was."""
    if not receipt["files"] and path.exists():
        first: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return first
    write(path, (json.dumps(receipt, indent=2) + "\n").encode())
    for folder in (path.parent, path.parent.parent):
        sync(folder)
    return receipt


def _file(folder: Path, sha256: str) -> Path:
    return folder / f"{sha256}.safetensors"
