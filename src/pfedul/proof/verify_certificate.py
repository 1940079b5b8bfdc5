"""Verification of a certificate: alone, or against the chain of the run that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import eq
from pathlib import Path
from typing import Any

from pfedul.base.keys import fingerprint
from pfedul.base.text import visible
from pfedul.errors import PfedulError
from pfedul.proof.certificate import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    all_evidence,
    done_request,
    statement_facts,
)
from pfedul.proof.check import Check
from pfedul.proof.envelope import PAYLOAD_TYPE, is_signed_by, read_envelope, statement_of
from pfedul.store.attested import read_chain
from pfedul.store.ledger import Ledger
from pfedul.store.requests import NOT_CONFIRMED
from pfedul.store.trust import heirs

NAME = "certificate"
LARGEST = 1_000_000
"""Bytes of a certificate; ours have a few thousand."""

_MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
"""What a statement raises that is signed, but of another form."""


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
        _stated(statement["predicate"])
        public = statement["predicate"]["signer"]["public_key"]
        named = statement["predicate"]["signer"]["fingerprint"]
        if not is_signed_by(envelope, public) or fingerprint(public) != named:
            raise PfedulError("It does not have the signature of the key that it names.")
    except PfedulError as error:
        return [Check(NAME, False, f"{file.name}: {error}")], None
    except OSError as error:
        return [Check(NAME, False, f"{file.name} cannot be read ({error.strerror}).")], None
    except _MALFORMED:
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
        *_stated(statement["predicate"]),
        who_signed(statement["predicate"]["signer"]["public_key"], trusted),
        Check("run", None, missing),
    ]


def _stated(predicate: Mapping[str, Any]) -> list[Check]:
    """What is certified, in the signer's words, for people."""
    request, removal = predicate["request"], predicate["removal"]
    asked = f", asked for by {request['asked']['by']}" if request["asked"].get("by") else ""
    words = [
        f"It certifies request {request['number']}: to forget {', '.join(request['targets'])}"
        f"{asked}, finished at {request['finished_at']} by {removal['options']['method']}.",
        *(
            f"Evidence ({item['source']}): {item['verdict']['verdict']}. "
            f"{item['verdict'].get('sentence', '')}"
            for item in predicate["evidence"]
        ),
        *(f"Its limits: {limit}" for limit in predicate["limits"]),
    ]
    return [Check("statement", True, visible(sentence.strip())) for sentence in words]


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


def against_ledger(file: Path, ledger: Ledger, trusted: str | None) -> list[Check]:
    """Whether a certificate fits the run, which may have grown since, and who may sign for it."""
    checks, statement = read_certificate(file)
    if statement is None:
        return checks
    try:
        wrong = _contradiction(statement, ledger, trusted)
        number = statement["predicate"]["request"]["number"]
    except PfedulError as error:
        wrong = str(error)
    except _MALFORMED:
        wrong = "it is not a certificate of pfedul."
    if wrong is not None:
        return [Check(NAME, False, f"{file.name}: {wrong}")]
    words = f"{file.name} is about request {number} of this run, and says what the run says."
    return [*checks, Check(NAME, True, words), *_earlier_key(file, statement, ledger, trusted)]


def _earlier_key(
    file: Path, statement: Mapping[str, Any], ledger: Ledger, trusted: str | None
) -> list[Check]:
    """Whether a key signed that handed the run over to the trusted one, which vouches for nothing
    of the time before."""
    public = statement["predicate"]["signer"]["public_key"]
    if trusted is None or public in heirs(read_chain(ledger), trusted):
        return []
    words = f"{file.name} is signed by the key {fingerprint(public)}, which handed the run over "
    return [Check(NAME, None, f"{words}to the one that you gave; ask whose key that was.")]


def _contradiction(statement: Mapping[str, Any], ledger: Ledger, trusted: str | None) -> str | None:
    """How a certificate and the run contradict each other; None if they do not."""
    predicate, chain = statement["predicate"], read_chain(ledger)
    head = next((item for item in chain if item.entry == predicate["chain"]["entry"]), None)
    if head is None or head.hash != predicate["chain"]["hash"]:
        return "the chain is not the one that was certified: it was rewritten, or is another run's."
    public, right = predicate["signer"]["public_key"], trusted or head.public_key
    if public not in heirs(chain, right) and right not in heirs(chain, public):
        whose = "that you gave" if trusted else "that signed the run"
        return f"it is signed by another key than the one {whose}."
    request = done_request(ledger, predicate["request"]["number"])
    after = statement["subject"][0]["digest"]["sha256"]
    if after != predicate["removal"]["shared_sha256_after"]:
        return "its subject is not what the removal left."
    return _other_words(predicate, statement_facts(ledger, request)) or _unknown_evidence(
        predicate["evidence"], all_evidence(ledger, request)
    )


def _other_words(predicate: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What it says otherwise than the ledger; erasures at nodes may be confirmed since."""
    for part in ("request", "removal"):
        for name, then in predicate[part].items():
            same = _confirmed if name == "erased_at_client" else eq
            if not same(then, now[part].get(name)):
                return f"what it says of {name.replace('_', ' ')} is not what the run says."
    return None


def _confirmed(then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return all(words in {NOT_CONFIRMED, now.get(target)} for target, words in then.items())


def _unknown_evidence(given: Sequence[Any], known: Sequence[Any]) -> str | None:
    return None if all(item in known for item in given) else "the run has no such evidence."
