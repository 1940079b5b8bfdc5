"""Signed statements: DSSE envelopes, which in-toto's and Sigstore's tools verify as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error, VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from pfedul.errors import PfedulError
from pfedul.store.chain import canonical

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def sign(statement: Mapping[str, Any], key: Ed25519PrivateKey) -> str:
    """The statement in a signed envelope, as JSON."""
    envelope = Envelope(canonical(statement).encode(), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(key))
    return json.dumps(envelope.to_dict(), indent=2) + "\n"


def read_envelope(text: str) -> Envelope:
    """An envelope in exactly the form that `sign` writes: no byte of it is free."""
    try:
        envelope = Envelope.from_dict(json.loads(text))
        whole = json.dumps(envelope.to_dict(), indent=2) + "\n" == text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Error):
        whole = False
    if not whole:
        raise PfedulError("It is not a whole certificate: it was damaged or changed.")
    return envelope


def statement_of(envelope: Envelope) -> dict[str, Any]:
    """The statement in an envelope, whoever signed it."""
    statement = json.loads(envelope.payload)
    if not isinstance(statement, dict):
        raise PfedulError("It does not hold a statement.")
    return statement


def is_signed_by(envelope: Envelope, public: str) -> bool:
    """Whether the owner of this public key (hexadecimal) signed the envelope, and nobody else."""
    try:
        key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)))
        return envelope.verify([key], 1).keys() == envelope.signatures.keys()
    except (VerificationError, ValueError):
        return False
