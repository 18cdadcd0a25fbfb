"""A certificate authority that lives as long as one cluster, the serving certificate and the clients' it signs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_AUTHORITY = "senro-devcluster-ca"
_LIFETIME = timedelta(days=30)
# Two machines' clocks, or one that was set back, must not make a new certificate "not yet valid".
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ServingFiles:
    """Where the authority's certificate, and the server's certificate and key, were written as PEM."""

    authority: Path
    certificate: Path
    key: Path
    authority_key: ec.EllipticCurvePrivateKey
    """Signs clients' certificates; it is never written."""


def write_serving_files(folder: Path) -> ServingFiles:
    """Make an authority and a certificate for 127.0.0.1, ::1 and localhost; write them into `folder`.

    Keys are P-256. The authority's own key stays in memory.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name(_AUTHORITY)
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    addresses = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        x509.DNSName("localhost"),
    ]
    server = (
        _builder(_name("kube-apiserver"), authority_name, server_key.public_key())
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files = ServingFiles(folder / "ca.crt", folder / "apiserver.crt", folder / "apiserver.key", authority_key)
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_key(files.key, server_key)
    return files


def write_client_files(files: ServingFiles, folder: Path, user: str, groups: Sequence[str]) -> tuple[Path, Path]:
    """A client's certificate and key as PEM: the user is its CN, its groups are its O (x509 authentication)."""
    key, public_key = ec.generate_private_key(ec.SECP256R1()), files.authority_key.public_key()
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    certificate = (
        _builder(subject, _name(_AUTHORITY), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        # From Python 3.13 on `ssl` is strict about RFC 5280, section 4.2.1.1, which wants it of all but the authority.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key), critical=False)
        .sign(files.authority_key, hashes.SHA256())
    )
    written = folder / "client.crt", folder / "client.key"
    written[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(written[1], key)
    return written


def subject_of(certificate: Mapping[str, Any] | None) -> tuple[str, tuple[str, ...]] | None:
    """The user and groups of a verified certificate as `ssl` shows it; None where there is none."""
    parts = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    user = next((value for name, value in parts if name == "commonName"), "")
    groups = tuple(value for name, value in parts if name == "organizationName")
    return (user, groups) if user else None


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def serving_context(files: ServingFiles) -> ssl.SSLContext:
    """TLS 1.2 or later, h2 and http/1.1 offered, a client's certificate asked for, as an apiserver does.

    One that the cluster's authority did not sign ends the handshake here; a real apiserver answers it with 401.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
