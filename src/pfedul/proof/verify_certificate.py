"""Verification of a certificate: alone, or against the chain of the run that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul.base.keys import fingerprint
from pfedul.base.tensorfile import is_digest
from pfedul.errors import PfedulError
from pfedul.proof.certificate import PREDICATE_TYPE, STATEMENT_TYPE
from pfedul.proof.check import Check
from pfedul.proof.envelope import PAYLOAD_TYPE, is_signed_by, read_envelope, statement_of
from pfedul.store.chain import REQUEST, Attestation, Entry

NAME = "certificate"
LARGEST = 1_000_000
"""Bytes of a certificate; ours have a few thousand."""


def read_certificate(file: Path) -> tuple[list[Check], dict[str, Any] | None]:
    """Whether a file is a certificate with its signer's signature, and what it states."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise PfedulError("It is too large for a certificate.")
        envelope = read_envelope(data.decode())
        statement = statement_of(envelope)
        _check_form(envelope.payload_type, statement)
        public = statement["predicate"]["signer"]["public_key"]
        named = statement["predicate"]["signer"]["fingerprint"]
        if not is_signed_by(envelope, public) or fingerprint(public) != named:
            raise PfedulError("It does not have the signature of the key that it names.")
    except PfedulError as error:
        return [Check(NAME, False, f"{file.name}: {error}")], None
    except OSError as error:
        return [Check(NAME, False, f"{file.name} cannot be read ({error.strerror}).")], None
    except (ValueError, KeyError, TypeError):
        return [Check(NAME, False, f"{file.name} is not a certificate of pfedul.")], None
    return [Check(NAME, True, f"{file.name} is signed by the key {named}.")], statement


def _check_form(payload_type: str, statement: Mapping[str, Any]) -> None:
    kinds = payload_type, statement["_type"], statement["predicateType"]
    if kinds != (PAYLOAD_TYPE, STATEMENT_TYPE, PREDICATE_TYPE):
        raise PfedulError("It is a statement of another kind.")


def verify_certificate(file: Path, trusted: str | None) -> list[Check]:
    """What can be told of a certificate without the run."""
    checks, statement = read_certificate(file)
    if statement is None:
        return checks
    missing = "The run is not here, so it was not compared with its chain and its tensors."
    return [
        *checks,
        who_signed(statement["predicate"]["signer"]["public_key"], trusted),
        Check("run", None, missing),
    ]


def who_signed(public: str, trusted: str | None) -> Check:
    """Whether the signer is the one who is trusted."""
    words = fingerprint(public)
    if trusted is None:
        return Check(
            "signer",
            None,
            f"Whose key {words} is was not checked: compare it with what the operator told you, "
            "or give the operator's public key with --public-key.",
        )
    if public == trusted:
        return Check("signer", True, f"The signer is the owner of the key that you gave, {words}.")
    return Check("signer", False, f"The signer's key {words} is not the one that you gave.")


def against_chain(file: Path, chain: Sequence[Entry]) -> list[Check]:
    """Whether a certificate fits the chain of a run, which may have grown since."""
    checks, statement = read_certificate(file)
    if statement is None:
        return checks
    wrong = _contradiction(statement, {entry.entry: entry for entry in chain})
    if wrong is not None:
        return [Check(NAME, False, f"{file.name}: {wrong}")]
    number = statement["predicate"]["request"]["number"]
    return [*checks, Check(NAME, True, f"{file.name} is about request {number} of this run.")]


def _contradiction(statement: Mapping[str, Any], chain: Mapping[int, Entry]) -> str | None:
    """How a certificate and the chain contradict each other; None if they do not."""
    predicate = statement["predicate"]
    head = chain.get(predicate["chain"]["entry"])
    if head is None or head.hash != predicate["chain"]["hash"]:
        return "the chain is not the one that was certified: it was rewritten, or is another run's."
    about = Attestation(REQUEST, "requests", (predicate["request"]["number"],)).about
    entries = [entry for entry in chain.values() if entry.about == about]
    after = statement["subject"][0]["digest"]["sha256"]
    done = [entry for entry in entries if entry.facts.get("shared_after") == after]
    if not is_digest(after) or not (done or _upgraded(entries)):
        return "the chain has no such removal."
    return None


def _upgraded(entries: Sequence[Entry]) -> bool:
    """Of a removal by an older version the chain holds no hash of the tensors in the clear."""
    return bool(entries) and entries[-1].kind == "upgraded"
