"""The operator's key: an Ed25519 key pair that signs what a run says of itself.

There is one for each user, made when it is first needed, outside of all run folders.
`PFEDUL_KEY` (`pfedul --key FILE`) chooses another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from filelock import FileLock

from pfedul.base.hashes import digest
from pfedul.errors import PfedulError

KEY_VARIABLE = "PFEDUL_KEY"


def usual_key_file() -> Path:
    """Where the key of this user is, unless another one is chosen."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(configuration).expanduser() / "pfedul" / "operator.key"
    except RuntimeError:
        raise PfedulError(
            "There is no home folder for the operator's key; set HOME, or XDG_CONFIG_HOME."
        ) from None


def chosen_key_file() -> Path:
    """Where the key is that signs."""
    chosen = os.environ.get(KEY_VARIABLE)
    return Path(chosen).expanduser() if chosen else usual_key_file()


def operator_key() -> Ed25519PrivateKey:
    """The key that was chosen, or that of this user, which is made at the first call."""
    file = chosen_key_file()
    if file == usual_key_file():
        return make_key(file)
    if not file.is_file():
        raise PfedulError(f"There is no key at {file}; make one with 'pfedul --key {file} key'.")
    return read_key(file)


def own_public_key() -> str | None:
    """The public half of the key that signs; None if there is no key yet."""
    file = chosen_key_file()
    return public_hex(read_key(file)) if file.is_file() else None


def make_key(path: Path) -> Ed25519PrivateKey:
    """The key in this file, which is made if it is not there."""
    if path.exists():
        return read_key(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(path.with_name(f".{path.name}.lock")):
            if not path.exists():
                _write_private(path, Ed25519PrivateKey.generate())
    except OSError as error:
        raise PfedulError(
            f"The operator's key cannot be made at {path} ({error.strerror}); "
            "choose another place with --key."
        ) from None
    return read_key(path)


def _write_private(path: Path, key: Ed25519PrivateKey) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    draft = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(encoding, form, serialization.NoEncryption()))
    os.replace(draft, path)  # nobody reads half of it


def read_key(path: Path) -> Ed25519PrivateKey:
    """A private key; others must not be able to read its file."""
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise PfedulError(f"Others can read the key {path}; call 'chmod 600 {path}'.")
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise PfedulError(f"{path} is not a readable Ed25519 key in PEM form; restore it.")
    return key


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public half as the ledger holds it: its 32 bytes in hexadecimal."""
    return key.public_key().public_bytes_raw().hex()


def secret_number(key: Ed25519PrivateKey, purpose: str) -> int:
    """A number of 128 bits for one purpose, which nobody without the private key can compute."""
    derived = HKDF(hashes.SHA256(), 16, salt=None, info=f"pfedul {purpose}".encode())
    return int.from_bytes(derived.derive(key.private_bytes_raw()))


def public_pem(public: str) -> str:
    """The public half in the form that other programs read."""
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(encoding, form).decode()


def read_public_key(path: Path) -> str:
    """The public half of a key file, which may hold the private key or the public one."""
    try:
        data = path.read_bytes()
        if b"PRIVATE" in data:
            return public_hex(read_key(path))
        key = serialization.load_pem_public_key(data)
    except (OSError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise PfedulError(f"{path} is not a readable Ed25519 key in PEM form; give another file.")
    return key.public_bytes_raw().hex()


def fingerprint(public: str) -> str:
    """What people compare: SHA-256 of the key in DER form, as `openssl` gives it."""
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return digest(key.public_bytes(encoding, form))


def is_signed(public: str, signature: str, data: bytes) -> bool:
    """Whether the owner of this public key signed these bytes; all of it may be forged."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True
