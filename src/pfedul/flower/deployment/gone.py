"""What a deployment still has of nodes whose client was forgotten, and its removal.

A node must first confirm that it has erased its own folder: until then it has to be started, and
asked. Then its key goes at once, and its folders and log when its process has ended.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing

from pfedul.flower.deployment.certificates import node_key
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.signing import public_form
from pfedul.store.ledger import Ledger
from pfedul.store.nodes import barred_keys, unconfirmed_erasures
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.requests import forgotten


def remove_gone_keys(layout: DeploymentPaths) -> list[str]:
    """Remove barred keys; returns whose. A client that comes back has a new one, which stays."""
    names, barred = _erased(layout)
    removed = [name for name in sorted(names) if _fingerprint(layout, name) in barred]
    for name in removed:
        layout.key(name).unlink(missing_ok=True)
        layout.public_key(name).unlink(missing_ok=True)
    return removed


def remove_gone(layout: DeploymentPaths) -> None:
    """Remove keys, folders and logs, when no process runs any more."""
    remove_gone_keys(layout)
    names, _ = _erased(layout)
    for name in names - set(layout.clients()):
        shutil.rmtree(layout.node(name), ignore_errors=True)
        shutil.rmtree(layout.process_home(name), ignore_errors=True)
        layout.log(name).unlink(missing_ok=True)


def _erased(layout: DeploymentPaths) -> tuple[set[str], set[str]]:
    """Forgotten clients that have nothing left to erase, and the keys that are barred."""
    if not (layout.run / LEDGER_FILE).is_file():
        return set(), set()
    with closing(Ledger(layout.run / LEDGER_FILE, read_only=True)) as ledger:
        owing = {row["target"] for row in unconfirmed_erasures(ledger)}
        return set(forgotten(ledger)) - owing, barred_keys(ledger)


def _fingerprint(layout: DeploymentPaths, name: str) -> str | None:
    if not layout.key(name).is_file():
        return None
    return hashlib.sha256(public_form(node_key(layout, name))).hexdigest()
