"""Verification of a run folder: chain, signatures, rows, files, certificates. It only reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pfedul.base.hashes import digest_file
from pfedul.base.keys import fingerprint
from pfedul.base.text import visible
from pfedul.errors import PfedulError
from pfedul.proof.check import Check, checked
from pfedul.proof.verify_certificate import against_ledger, who_signed
from pfedul.store import paths
from pfedul.store.attested import (
    broken_links,
    changed_rows,
    no_chain,
    read_chain,
    signed_settings,
    unsigned_entries,
)
from pfedul.store.chain import Entry
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.marker import MARKER
from pfedul.store.memory import Memory
from pfedul.store.tables import file_digests
from pfedul.store.trust import heirs, is_trial, reservations, trial_words

NOT_SIGNED = (
    "Figures of rounds, replies and earlier evaluations are not signed: a removal rewrites or "
    "erases them.",
    "The chain shows what the owner of the key signed; the owner could sign another history, "
    "unless somebody has a certificate of this one.",
    "Backups and copies elsewhere were not seen.",
)

_ELSEWHERE = {
    *(paths.ORACLES, paths.REHEARSAL, paths.COMPARISONS, paths.REPORTS),
    *(paths.DEPLOYMENT, paths.UNLEARNING, paths.STAGING),
}
"""Folders with files that no entry of this run's chain is about."""

_PLAIN = {paths.LEDGER_FILE, paths.SETTINGS_FILE, paths.LOCK_FILE, paths.ORACLES_AT, MARKER}


def verify_run(run: Path, trusted: str | None, certificates: Sequence[Path] = ()) -> list[Check]:
    """Everything that can be told of a run folder."""
    try:
        require_run(run)
        with closing(Ledger(run / paths.LEDGER_FILE, read_only=True)) as ledger:
            before = read_chain(ledger)
            checks = _checks(run, ledger, trusted, certificates)
            if any(check.holds is False for check in checks) and read_chain(ledger) != before:
                with ledger.snapshot():  # the run was at work; now its next commit waits
                    checks = _checks(run, ledger, trusted, certificates)
            return checks
    except PfedulError as error:
        return [Check("ledger", False, str(error))]


def _checks(
    run: Path, ledger: Ledger, trusted: str | None, certificates: Sequence[Path]
) -> list[Check]:
    chain = read_chain(ledger)
    if not chain:
        words = no_chain(run) if ledger.older else "The chain of evidence is empty."
        return [Check("chain", False, words), *_memory(run, chain), *_files(run, ledger)]
    broken = broken_links(chain)
    if broken:
        return [*checked("chain", broken, ""), *_memory(run, chain)]
    rows = "Requests, audits, admissions, erasures and the list of files are as they were signed."
    return [
        Check("chain", True, f"Each of the {len(chain)} entries holds the hash of the one before."),
        *_trial(run, chain),
        *_memory(run, chain),
        *_signatures(chain, trusted),
        *checked("ledger", changed_rows(ledger, chain), rows),
        *_settings(run, ledger),
        *_files(run, ledger),
        *_certificates(run, ledger, trusted, certificates),
        *_unchecked(run),
    ]


def _trial(run: Path, chain: Sequence[Entry]) -> list[Check]:
    return [Check("chain", False, trial_words(run))] if is_trial(chain) else []


def _signatures(chain: Sequence[Entry], trusted: str | None) -> list[Check]:
    keys = list(dict.fromkeys(entry.public_key for entry in chain))
    named = " and then ".join(map(fingerprint, keys))
    right = f"Each entry has the signature of its key: {named}."
    checks = checked("signatures", unsigned_entries(chain), right)
    signer = chain[-1].public_key
    limits = reservations(chain, signer if trusted is None else trusted)
    noted = [Check("history", None, sentence) for sentence in limits]
    return [*checks, _signer(chain, trusted), *noted]


def _signer(chain: Sequence[Entry], trusted: str | None) -> Check:
    """Whether the owner of the head is trusted, perhaps through a key that handed over to it."""
    public = chain[-1].public_key
    if trusted in {None, public} or public not in heirs(chain, str(trusted)):
        return who_signed(public, trusted)
    words = f"The key that you gave handed the run over to the signer's key {fingerprint(public)}."
    return Check("signer", True, words)


def _memory(run: Path, chain: Sequence[Entry]) -> list[Check]:
    """What this user's own key signed last, where that is remembered."""
    memory = Memory(run)
    if memory.is_refused(chain):
        return [Check("memory", False, memory.contradiction())]
    elsewhere = [Check("memory", None, visible(words)) for words in memory.elsewhere(chain)]
    if memory.goes_on_here(chain):
        words = "It goes on from what your own key signed last at this place."
        return [Check("memory", True, words), *elsewhere]
    words = "Whether it is the newest state was not checked: no key of yours has signed it here."
    return [Check("memory", None, words), *elsewhere]


def _settings(run: Path, ledger: Ledger) -> list[Check]:
    name = paths.SETTINGS_FILE
    file = paths.inside(run, name)
    if file.is_file() and digest_file(file) == signed_settings(ledger):
        return [Check("settings", True, f"{name} is the file that was signed.")]
    words = f"{name} is not the file that was signed: somebody has edited, or removed, it."
    return [Check("settings", False, words)]


def _files(run: Path, ledger: Ledger) -> list[Check]:
    """Tensor files against the list in the ledger, and files that are not in it."""
    listed = file_digests(ledger)
    wrong = [sentence for name in listed if (sentence := _wrong_file(run, name, listed[name]))]
    wrong += [
        f"{name}: the ledger does not know this file." for name in _found(run) - listed.keys()
    ]
    return checked("files", sorted(wrong), f"All {len(listed)} tensor files have their hashes.")


def _wrong_file(run: Path, name: str, sha256: str) -> str | None:
    paths.check_file(name)
    file = paths.inside(run, name)
    if not file.is_file():
        return f"{name} is missing: it was removed, or a commit was interrupted; open the run once."
    if digest_file(file) != sha256:
        return f"{name} is not the file that was signed."
    return None


def _found(run: Path) -> set[str]:
    """The files of a run that the ledger should know."""
    names = set()
    for root, folders, files in os.walk(run):
        if Path(root) == run:
            folders[:] = [name for name in folders if name not in {*_ELSEWHERE, paths.CERTIFICATES}]
            files = [name for name in files if name not in _PLAIN]
        names |= {(Path(root) / name).relative_to(run).as_posix() for name in files}
    return names


def _certificates(
    run: Path, ledger: Ledger, trusted: str | None, given: Sequence[Path]
) -> list[Check]:
    """Those of the run, and those that somebody brings."""
    own = sorted(paths.inside(run, paths.CERTIFICATES).glob("*"))
    files = dict.fromkeys([*own, *given])
    return [check for file in files for check in against_ledger(file, ledger, trusted)]


def _unchecked(run: Path) -> list[Check]:
    names = sorted(name for name in _ELSEWHERE if (run / name).is_dir())
    there = [f"Not checked: what is in {', '.join(names)}."] if names else []
    return [Check("limits", None, sentence) for sentence in (*there, *NOT_SIGNED)]
