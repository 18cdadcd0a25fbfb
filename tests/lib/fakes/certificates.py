"""Certificate authorities and certificates, created for a test."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
"""A time at which the certificates below are valid by default."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True)
class Authority:
    """A CA that signs for loopback addresses and for clients."""

    cert: bytes
    _cert: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    def issue(self, name: str, *, start: datetime | None = None, end: datetime | None = None) -> Pair:
        """Returns a certificate for `name` that also serves loopback addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ]
        cert = (
            _builder(name, self._cert.subject, key, start, end)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Pair(cert.public_bytes(Encoding.PEM), key_pem(key))


def authority(name: str = "made-up-ca", *, start: datetime | None = None, end: datetime | None = None) -> Authority:
    """Returns a new CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    cert = (
        _builder(name, subject, key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(cert.public_bytes(Encoding.PEM), cert, key)


def key_pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    """Returns the key as PEM, encrypted if there is a password."""
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def _builder(
    name: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime | None,
    end: datetime | None,
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start or NOW - timedelta(days=3650))
        .not_valid_after(end or NOW + timedelta(days=36500))
    )
