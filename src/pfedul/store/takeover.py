"""Explicit consent to go on from a chain that the operator's key did not sign last."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pfedul.store.attested import read_chain, settings_changed
from pfedul.store.chain import ACCEPTED, HANDED_OVER, Attestation
from pfedul.store.memory import Memory
from pfedul.store.store import Store
from pfedul.store.trust import distrust, refuse_trial


def accept(run: Path) -> bool:
    """Take over a run as it is; returns whether that was needed."""
    memory = Memory(run)
    with closing(Store.open_unremembered(memory.run)) as store:
        ledger = store.ledger
        refuse_trial(memory.run, read_chain(ledger))
        edited = ledger.older or settings_changed(memory.run, ledger)
        needed = edited or distrust(memory.run, read_chain(ledger)) is not None
        if edited:
            store.sign_settings(ACCEPTED)  # which does not confirm the code that they name
        elif needed:
            ledger.write([Attestation(ACCEPTED)])
        ledger.remember(memory)
    return needed


def hand_over(run: Path, public: str) -> None:
    """Let the owner of another key sign from now on."""
    with closing(Store.open(run.resolve())) as store:
        store.ledger.write([Attestation(HANDED_OVER, facts={"to": public})])
