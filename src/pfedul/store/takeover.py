"""Explicit consent to go on from a chain that the operator's key did not sign last."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pfedul.store.attested import read_chain
from pfedul.store.chain import ACCEPTED, HANDED_OVER, UPGRADED, Attestation
from pfedul.store.memory import Memory
from pfedul.store.store import Store
from pfedul.store.trust import distrust, refuse_trial


def accept(run: Path) -> bool:
    """Take over a run as it is; returns whether that was needed."""
    memory = Memory(run)
    with closing(Store.open_unremembered(memory.run)) as store:
        ledger = store.ledger
        refuse_trial(memory.run, read_chain(ledger))
        needed = ledger.older or distrust(memory.run, read_chain(ledger)) is not None
        if ledger.older:
            store.sign_settings(UPGRADED)  # as it is found: this does not confirm its code
        if needed:
            ledger.write([Attestation(ACCEPTED)])
        ledger.remember(memory)
    return needed


def hand_over(run: Path, public: str) -> None:
    """Let the owner of another key sign from now on."""
    with closing(Store.open(run.resolve())) as store:
        store.ledger.write([Attestation(HANDED_OVER, facts={"to": public})])
