"""Checks certificates and keys before a connection is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file.

    rule: the identifier of the problem.
    message: a sentence about it.
    about_key: whether the file of the key is wrong, and not that of the certificate.
    """

    rule: str
    message: str
    about_key: bool = False


def check_bundle(data: bytes, *, now: datetime) -> Problem | None:
    """Returns the problem of a CA bundle; None if at least one certificate of it is valid `now`."""
    try:
        certificates = x509.load_pem_x509_certificates(data)
    except ValueError:
        return Problem("no-certificate", "holds no PEM certificate that can be read")
    problems = [_validity(certificate, now) for certificate in certificates]
    return None if None in problems else problems[0]


def check_pair(cert: bytes, key: bytes, *, now: datetime) -> Sequence[Problem]:
    """Returns the problems of a client certificate, the first of its file, and its key."""
    problems: list[Problem] = []
    leaf = private = None
    try:
        leaf = x509.load_pem_x509_certificate(cert)
    except ValueError:
        problems.append(Problem("no-certificate", "holds no PEM certificate that can be read"))
    try:
        private = load_pem_private_key(key, password=None)
    except TypeError:
        problems.append(Problem("encrypted-key", "is encrypted; senro asks for no passphrase", about_key=True))
    except (ValueError, UnsupportedAlgorithm):
        problems.append(Problem("no-key", "holds no PEM private key that can be read", about_key=True))
    if leaf is None:
        return problems
    expired = _validity(leaf, now)
    if expired is not None:
        problems.append(expired)
    if private is not None:
        ours, theirs = (
            public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            for public in (private.public_key(), leaf.public_key())
        )
        if ours != theirs:
            problems.append(Problem("mismatch", "does not belong to the client certificate", about_key=True))
    return problems


def _validity(certificate: x509.Certificate, now: datetime) -> Problem | None:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        return Problem("expired", f"the certificate expired at {end.isoformat()}; it is {now.isoformat()}")
    if now < start:
        return Problem("not-yet-valid", f"the certificate is valid from {start.isoformat()}; it is {now.isoformat()}")
    return None
