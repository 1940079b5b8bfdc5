"""The names of files and folders in a run folder. See docs/run-folder.md.

A run folder may come from somebody else, so every name that its ledger holds is checked: it must
fit the layout and stay inside the folder. No symbolic link inside a run folder is followed, and
no pipe or device is opened: reading one would wait for ever.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from pfedul.errors import PfedulError

SETTINGS_FILE = "federation.toml"
LEDGER_FILE = "ledger.db"
INIT_FILE = "init.safetensors"
SHARED_FILE = "shared.safetensors"
LOCK_FILE = "lock"
STAGING = "staging"
ORACLES = "oracles"
ORACLES_AT = "oracles-at"
"""Names a folder for oracles on another disk; see store/oracles.py."""
REHEARSAL = "rehearsal"
"""Federations that audits train; see store/copies.py."""
UNLEARNING = "unlearning"
"""Notes of a method that is at work; see unlearn/notebook.py."""
COMPARISONS = "comparisons"
"""Branches and results of `pfedul compare`; see compare/folder.py."""
REPORTS = "reports"
"""Reports, which name the clients that the run had when they were written."""

CERTIFICATES = "certificates"
"""Certificates of removals, which also name their targets."""

CLIENTS = "clients"
DEPLOYMENT = "deployment"
"""What `pfedul up` keeps in the run folder; it may be there before the run is."""

FISHER_TOTAL_FILE = "records/fisher-total.safetensors"
CHECKPOINTS = "records/clusters"
FISHER_RETAINED_FILE = "records/fisher-retained.safetensors"


def certificate_file(request: int) -> str:
    """Where the certificate of a removal is, below the run folder."""
    return f"{CERTIFICATES}/request-{request}.json"


def personal_file(client: str) -> str:
    """Where a client's personal tensors are, below the run folder."""
    return f"{CLIENTS}/{client}/personal.safetensors"


def held_file(client: str) -> str:
    """Where the hash of personal tensors is that a client keeps itself, below the run folder."""
    return f"{CLIENTS}/{client}/held.safetensors"


def record_file(kind: str, client: str) -> str:
    """Where a record of one client is, below the run folder."""
    return f"records/{kind}/{client}.safetensors"


def fisher_file(client: str) -> str:
    """Where a client's Fisher record is, below the run folder."""
    return record_file("fisher", client)


def cluster_file(client: str) -> str:
    """Where a client's cluster is written, below the run folder."""
    return f"{CLIENTS}/{client}/cluster.safetensors"


def checkpoint_file(cluster: int, number: int) -> str:
    """Where the checkpoint of a cluster from before a round is, below the run folder."""
    return f"{CHECKPOINTS}/{cluster}/before-{number}.safetensors"


AT_NODES = "nodes"
"""The value of the ledger's fact `clients_at` when clients are Flower nodes."""


_PART = "[A-Za-z0-9][A-Za-z0-9._-]*"
_TENSORS = re.compile(rf"((init|shared)|({CLIENTS}|records)(/{_PART}){{1,3}})[.]safetensors")


def inside(run: Path, name: str) -> Path:
    """The path of `name` below a run folder; refuses a name that leads out of it."""
    path = str(run)
    for part in name.split("/"):
        if part in {"", ".", ".."} or "\0" in part or os.path.basename(part) != part:
            raise _foreign(name)
        path = os.path.join(path, part)
        check_kind(path)
    return Path(path)


def check_file(name: object) -> None:
    """Refuse a name that no tensor file of a run has."""
    if not isinstance(name, str) or not _TENSORS.fullmatch(name):
        raise _foreign(name)


def check_move(staged: object, name: object) -> None:
    """Refuse a move of a commit unless it publishes a staged tensor file, or removes a file."""
    if not staged and isinstance(name, str) and name.startswith(f"{REPORTS}/"):
        inside(Path(), name)
        return
    check_file(name)
    if staged and not re.fullmatch(rf"{STAGING}/[0-9]+/{re.escape(str(name))}", str(staged)):
        raise _foreign(staged)


def check_tree(folder: Path) -> None:
    """Refuse a folder with anything but files and folders below it, `deployment` aside."""
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            check_kind(os.path.join(root, name))
        if Path(root) == folder and DEPLOYMENT in folders:
            folders.remove(DEPLOYMENT)  # checked by those who use it


def check_one_name(file: Path) -> None:
    """Refuse a file that is changed in place and has another name: what that names would change."""
    if file.is_file() and file.stat().st_nlink > 1:
        raise PfedulError(
            f"{file} has another name elsewhere (a hard link), under which it would change as "
            f"well; put copies in the places of {LEDGER_FILE} and {LOCK_FILE}."
        )


def check_kind(path: str) -> None:
    """Refuse what is there and is neither a file nor a folder; sockets cannot be opened anyway."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:  # it is not there, or has just gone
        return
    if kind == stat.S_IFLNK:
        raise _linked(Path(path))
    if kind not in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK}:
        raise PfedulError(
            f"{path} is a pipe or a device, which does not belong in a run folder; remove it."
        )


def _foreign(name: object) -> PfedulError:
    return PfedulError(
        f"The ledger names {name!r}, which does not belong in a run folder; nothing was touched: "
        "take this run only from somebody you trust, or restore it from a backup."
    )


def _linked(path: Path) -> PfedulError:
    return PfedulError(
        f"{path} is a symbolic link, and none is followed inside a run folder; "
        "replace it by what it points to, or remove it."
    )
