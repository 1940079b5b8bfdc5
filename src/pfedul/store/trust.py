"""Whose word a chain of evidence is, and how an operator takes it over.

The operator's key signs only on top of its own last entry, and only if that is the one that it
signed last (memory.py). Everything else needs the operator's explicit consent, which is an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pfedul.base.keys import chosen_key_file, fingerprint, operator_key, public_hex
from pfedul.errors import PfedulError
from pfedul.store.attested import broken_links, differences_from_chain, read_chain
from pfedul.store.chain import (
    ACCEPTED,
    CREATED,
    HANDED_OVER,
    KEY_CHANGED,
    TRIAL,
    UPGRADED,
    Entry,
)
from pfedul.store.ledger import Ledger
from pfedul.store.memory import Memory


def distrust(run: Path, chain: Sequence[Entry]) -> str | None:
    """Why this user's key does not sign on top of a sound chain; None if it does."""
    if is_trial(chain):
        return trial_words(run)
    signer = chain[-1].public_key
    if signer != public_hex(operator_key()):
        return (
            f"The chain of {run} is signed by the key {fingerprint(signer)}, and yours is another "
            f"({chosen_key_file()}). If you know whose key that is, take the run over with "
            f"'pfedul key --accept {run}'; else take it only from somebody you trust."
        )
    memory = Memory(run)
    return memory.contradiction() if memory.is_refused(chain) else None


def is_trial(chain: Sequence[Entry]) -> bool:
    """Whether a federation was made below a run, to try something in it."""
    return any(entry.kind == TRIAL for entry in chain)


def trial_words(run: Path) -> str:
    """What to say of such a federation."""
    return (
        f"{run} is not a run: it was made below a run, by a comparison or an audit that tried "
        "something in it. Restore the run from a backup."
    )


def refuse_trial(run: Path, chain: Sequence[Entry]) -> None:
    """Raise if this is not a run of its own; no consent makes it one."""
    if is_trial(chain):
        raise PfedulError(trial_words(run))


def refuse_distrust(run: Path, ledger: Ledger) -> None:
    """Raise if this user's key does not sign on top of the chain."""
    why = distrust(run, read_chain(ledger))
    if why is not None:
        raise PfedulError(why)


def contradictions(run: Path, ledger: Ledger) -> list[str]:
    """What is wrong with a run for all that this user can tell: its chain, and what is remembered.

    A ledger of an older version has no chain, which is wrong only if it had one before.
    """
    with ledger.snapshot():  # what another process commits meanwhile is in neither
        chain, memory = read_chain(ledger), Memory(run)
        wrong = differences_from_chain(ledger) if chain else []
        wrong += [trial_words(run)] if is_trial(chain) else []
        return [*wrong, memory.contradiction()] if memory.is_refused(chain) else wrong


def made_by_this_operator(ledger: Ledger) -> bool:
    """Whether this user's key signed a run from its creation on, and nobody else's any part.

    The key is read, never made.
    """
    chain = read_chain(ledger)
    if not chosen_key_file().is_file() or broken_links(chain):
        return False
    signers = {entry.public_key for entry in chain}
    return signers == {public_hex(operator_key())} and CREATED in {entry.kind for entry in chain}


def heirs(chain: Sequence[Entry], trusted: str) -> set[str]:
    """The trusted key, and those that it handed the chain over to, and so on."""
    keys = {trusted}
    for entry in chain:
        if entry.public_key in keys and entry.kind == HANDED_OVER:
            keys.add(str(entry.facts.get("to")))
    return keys


def strangers(chain: Sequence[Entry], trusted: str) -> list[Entry]:
    """Entries of other keys than the trusted one and its heirs."""
    keys = heirs(chain, trusted)
    return [entry for entry in chain if entry.public_key not in keys]


def reservations(chain: Sequence[Entry], trusted: str) -> list[str]:
    """What the trusted key did not sign when it happened, in sentences."""
    words = [_taken_over(entry) for entry in chain if entry.kind in {UPGRADED, ACCEPTED}]
    others = strangers(chain, trusted)
    if others:
        words.insert(0, _by_others(chain, others))
    return list(dict.fromkeys(words))


def _taken_over(entry: Entry) -> str:
    if entry.kind == ACCEPTED:
        return (
            f"Entry {entry.entry} accepts a state that the operator's key had not signed last: a "
            "backup, or a run of another key or of an older version. What was signed after it "
            "elsewhere is not in this chain."
        )
    return (
        "The run was made by an older version without a chain: what it says of the time before "
        "was not signed when it happened, but when the chain began."
    )


def _by_others(chain: Sequence[Entry], others: Sequence[Entry]) -> str:
    keys = ", ".join(dict.fromkeys(fingerprint(entry.public_key) for entry in others))
    after = [entry for entry in chain if entry.entry > others[-1].entry]
    taken = [entry.entry for entry in after if entry.kind == KEY_CHANGED][:1]
    how = f"; entry {taken[0]} takes them over, which the earlier key did not sign" if taken else ""
    last = others[-1].entry
    return f"{len(others)} entries up to entry {last} are signed by another key, {keys}{how}."
