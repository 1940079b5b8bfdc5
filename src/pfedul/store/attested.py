"""Whether the ledger still is what the chain of evidence says: read, compared, never repaired."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pfedul.base.hashes import digest_file
from pfedul.base.keys import fingerprint
from pfedul.errors import PfedulError
from pfedul.store.chain import (
    CREATED,
    FILE_DIGEST,
    SETTINGS,
    SETTINGS_ROW,
    START,
    STATE,
    Attestation,
    Entry,
    has_signature,
    is_whole,
)
from pfedul.store.ledger import Ledger
from pfedul.store.paths import SETTINGS_FILE, inside


def read_chain(ledger: Ledger) -> list[Entry]:
    """All entries, oldest first."""
    return [Entry(**row) for row in ledger.rows("SELECT * FROM chain ORDER BY entry")]


def broken_links(chain: Sequence[Entry]) -> list[str]:
    """What is wrong with the chain itself, in sentences. The last signature covers all hashes."""
    if not chain:
        return ["The chain of evidence is empty."]
    hashes = [START, *(entry.hash for entry in chain)]
    broken = [
        entry.entry
        for number, (entry, previous) in enumerate(zip(chain, hashes, strict=False), start=1)
        if entry.entry != number or not is_whole(entry, previous)
    ]
    found = [f"Entry {number} of the chain was changed, or one before it." for number in broken[:1]]
    if not has_signature(chain[-1]):
        found.append(f"Entry {chain[-1].entry} of the chain does not have its key's signature.")
    return found


def unsigned_entries(chain: Sequence[Entry]) -> list[str]:
    """Entries without the signature of their key: with all of them, who signed what is known."""
    return [
        f"Entry {entry.entry} of the chain does not have the signature of the key "
        f"{fingerprint(entry.public_key)[:16]}."
        for entry in chain
        if not has_signature(entry)
    ]


def changed_rows(ledger: Ledger, chain: Sequence[Entry]) -> list[str]:
    """Rows that are not those that were signed last, in sentences."""
    newest = {entry.about: entry for entry in chain if entry.about}
    found = []
    for about, entry in newest.items():
        rows = None if entry.salt is None else ledger.rows_digest(about, entry.salt)
        if entry.salt is None or rows != entry.facts["sha256"]:
            found.append(f"{_words(about)} in the ledger: not what entry {entry.entry} attests.")
    return found + _unknown_rows(ledger, newest)


def _unknown_rows(ledger: Ledger, newest: dict[str, Entry]) -> list[str]:
    """Rows of an attested table that no entry is about: put in by somebody else."""
    return [
        f"{_words(about)} in the ledger: no entry of the chain is about it."
        for about in ledger.attested_rows()
        if about not in newest
    ]


def _words(about: str) -> str:
    table, *key = json.loads(about)
    if table == STATE:
        return "Clients, nodes, accuracies or facts"
    if not key:
        return f"The list of {table}"
    return f"The row {' '.join(map(str, key))} of {table}"


def signed_settings(ledger: Ledger) -> str | None:
    """The SHA-256 of the configuration file that was signed last; None before the first."""
    entry = _newest_of_settings(ledger)
    return None if entry is None else entry.facts.get(FILE_DIGEST)


def signer_of_settings(ledger: Ledger) -> str | None:
    """The public key of whoever made the settings what they are; None if that is not known.

    An upgrade signs what it finds, and says nothing of who made it.
    """
    entry = _newest_of_settings(ledger)
    made = entry is not None and entry.kind in {CREATED, SETTINGS} and has_signature(entry)
    return entry.public_key if entry is not None and made else None


def settings_changed(run: Path, ledger: Ledger) -> bool:
    """Whether the configuration is another file than the one that was signed last."""
    signed = signed_settings(ledger)
    return signed is not None and digest_file(settings_file(run)) != signed


def settings_file(run: Path) -> Path:
    """The configuration of a run; raises if it is gone."""
    file = inside(run, SETTINGS_FILE)
    if not file.is_file():
        raise PfedulError(f"There is no configuration file {file}; restore it from a backup.")
    return file


def refuse_changed_settings(run: Path, ledger: Ledger) -> None:
    """Raise if somebody has edited the configuration: what is signed next would stand for it."""
    if settings_changed(run, ledger):
        raise PfedulError(
            f"{run / SETTINGS_FILE} is not the file that was signed: put it back, and give changes "
            f"as options. If you edited it, go on from it with 'pfedul key --accept {run}'."
        )


def _newest_of_settings(ledger: Ledger) -> Entry | None:
    about = Attestation(SETTINGS, *SETTINGS_ROW).about
    return next((entry for entry in reversed(read_chain(ledger)) if entry.about == about), None)


def differences_from_chain(ledger: Ledger) -> list[str]:
    """All that can be told without anybody's key, in sentences; empty if all is as signed."""
    chain = read_chain(ledger)
    return broken_links(chain) or changed_rows(ledger, chain)


def refuse_differences(run: Path, ledger: Ledger) -> None:
    """Raise if the ledger is not as its chain says."""
    if ledger.older and not read_chain(ledger):
        raise PfedulError(no_chain(run))
    for sentence in differences_from_chain(ledger):
        raise PfedulError(
            f"{sentence} The run was changed by something else; restore it from a backup, or "
            f"see 'pfedul verify {run}'."
        )


def no_chain(run: Path) -> str:
    """What to say of a run as an older version left it."""
    return (
        f"{run} has no chain of evidence, as an older version wrote it; if you know where it was "
        f"since then, begin one with 'pfedul key --accept {run}'."
    )


def refuse_changed_files(ledger: Ledger, locate: Callable[[str], Path]) -> None:
    """Raise if a tensor file is not the one in the ledger."""
    files = ledger.pairs("SELECT path, sha256 FROM files ORDER BY path")
    for name, sha256 in files.items():
        file = locate(name)
        if not file.is_file():
            raise PfedulError(f"The file {file} is missing; restore it from a backup.")
        if digest_file(file) != sha256:
            raise PfedulError(
                f"The file {file} is not the one that this run wrote (damaged or foreign); "
                "restore it from a backup."
            )
