"""Explicit consent to go on from a chain that the operator's key did not sign last."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pfedul.store.attested import read_chain
from pfedul.store.chain import ACCEPTED, HANDED_OVER, Attestation
from pfedul.store.memory import Memory
from pfedul.store.store import Store
from pfedul.store.trust import distrust, refuse_trial


def accept(run: Path) -> bool:
    """Take over a run as it is; returns whether that was needed."""
    memory = Memory(run)
    with closing(Store.open_unremembered(memory.run)) as store:
        refuse_trial(memory.run, read_chain(store.ledger))
        needed = distrust(memory.run, read_chain(store.ledger)) is not None
        if needed:
            store.ledger.write([Attestation(ACCEPTED)])
        chain = read_chain(store.ledger)
        memory.note(chain[0].hash, chain[-1])
    return needed


def hand_over(run: Path, public: str) -> None:
    """Let the owner of another key sign from now on."""
    with closing(Store.open(run.resolve())) as store:
        store.ledger.write([Attestation(HANDED_OVER, facts={"to": public})])
