"""Certificates of a deployment: its own authority, the server's certificate, a key per node."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pfedul.flower.deployment.layout import PRIVATE, DeploymentPaths, write
from pfedul.flower.signing import read_node_key

AUTHORITY = "pfedul deployment authority"
AUTHORITY_DAYS = 3650
SERVER_DAYS = 825
CLOCK_SKEW = timedelta(hours=1)
"""Certificates are valid from a little earlier on: clocks of hosts differ."""


def open_authority(layout: DeploymentPaths) -> ec.EllipticCurvePrivateKey:
    """The key of the deployment's authority, made at the first call; nobody else knows it."""
    if not (layout.authority.is_file() and layout.authority_key.is_file()):
        key = ec.generate_private_key(ec.SECP384R1())
        write(layout.authority_key, _private_pem(key), PRIVATE)
        builder = _builder(AUTHORITY, key.public_key(), AUTHORITY_DAYS, is_authority=True)
        write(layout.authority, _signed(builder, key))
    data = layout.authority_key.read_bytes()
    return _elliptic(serialization.load_pem_private_key(data, password=None))


def issue_server_certificate(layout: DeploymentPaths, hosts: Iterable[str]) -> None:
    """A fresh key and certificate for the server, under the names it is reached by."""
    authority, key = open_authority(layout), ec.generate_private_key(ec.SECP384R1())
    names = x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = _builder("pfedul server", key.public_key(), SERVER_DAYS, is_authority=False)
    for extension in (purpose, names, issuer):
        builder = builder.add_extension(extension, critical=False)
    write(layout.server_key, _private_pem(key), PRIVATE)
    write(layout.server_certificate, _signed(builder, authority))


def make_node_key(layout: DeploymentPaths, client: str) -> None:
    """A key pair for a client's node, in OpenSSH's form, which Flower reads."""
    key = ec.generate_private_key(ec.SECP384R1())
    encoding, form = serialization.Encoding, serialization.PrivateFormat
    private = key.private_bytes(encoding.PEM, form.OpenSSH, serialization.NoEncryption())
    write(layout.key(client), private, PRIVATE)
    public = key.public_key().public_bytes(encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write(layout.public_key(client), public + f" {client}\n".encode())


def node_key(layout: DeploymentPaths, client: str) -> ec.EllipticCurvePrivateKey:
    """The private key of a client's node."""
    return read_node_key(layout.key(client))


def _elliptic(key: object) -> ec.EllipticCurvePrivateKey:
    assert isinstance(key, ec.EllipticCurvePrivateKey)  # nobody else writes these files
    return key


def _builder(
    subject: str, key: ec.EllipticCurvePublicKey, days: int, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    path_length = 0 if is_authority else None
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(AUTHORITY))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, path_length), critical=True)
        .add_extension(_usage(signs_certificates=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(builder: x509.CertificateBuilder, authority: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(authority, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
