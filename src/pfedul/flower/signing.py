"""What a node signs, with the key under which it is registered at the server (P-384, ECDSA).

The server needs no list of keys: Flower says which public key a node has, and the ledger holds the
SHA-256 of the key that each client is bound to.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pfedul.errors import PfedulError
from pfedul.store.chain import canonical

SIGNATURE = "signature"
RECEIPT, REQUEST = "receipt of an erasure", "request for a removal"
"""What is signed; said in every signature, so one cannot be taken for the other."""

_HOW = ec.ECDSA(hashes.SHA384())


def read_node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A node's private key, in OpenSSH's form."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise PfedulError(f"{path} is not a readable key of a node (ECDSA, without a password).")
    return key


def signed(kind: str, words: Mapping[str, Any], key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    """The words with their signature."""
    return {**words, SIGNATURE: key.sign(_message(kind, words), _HOW).hex()}


def public_form(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A node's public key as Flower registers it."""
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_public(public: bytes) -> ec.EllipticCurvePublicKey | None:
    """A public key as Flower registers it; None where nodes have none. Another kind is refused."""
    try:
        key = serialization.load_pem_public_key(public)
    except (ValueError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise PfedulError("The node's key cannot sign here; register an ECDSA key (P-384).")
    return key


def has_signed(kind: str, words: Mapping[str, Any], key: ec.EllipticCurvePublicKey) -> bool:
    """Whether the owner of the key signed these words; all of them may be forged."""
    try:
        key.verify(bytes.fromhex(words[SIGNATURE]), _message(kind, words), _HOW)
    except (InvalidSignature, KeyError, TypeError, ValueError, RecursionError):
        return False
    return True


def _message(kind: str, words: Mapping[str, Any]) -> bytes:
    said = {name: value for name, value in words.items() if name != SIGNATURE}
    return f"pfedul {kind} {canonical(said)}".encode()
