"""The names that the apiserver accepts (docs/design/api-rules.md#names-and-labels), and those that senro makes.

The patterns must match the whole text: `$` in a pattern would accept a newline at the end.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final, Literal

NAME_BYTES: Final = 63
"""The length of the longest DNS-1123 label, label value, and name in a label key."""

SUBDOMAIN_BYTES: Final = 253
"""The length of the longest DNS-1123 subdomain, and of the longest key in a Secret."""

MANAGED_LABEL: Final = "senro.dev/managed"
RUN_LABEL: Final = "senro.dev/run"
STEP_LABEL: Final = "senro.dev/step"
ATTEMPT_LABEL: Final = "senro.dev/attempt"
STEP_ID_ANNOTATION: Final = "senro.dev/step-id"
ATTEMPT_UID_ANNOTATION: Final = "senro.dev/attempt-uid"
"""Has the attempt's nonce (docs/design/attempt.md#ownership)."""
WORKSPACE_ANNOTATION: Final = "senro.dev/workspace"
CLAIM_ANNOTATION: Final = "senro.dev/claim"
"""The claim that a Lease protects."""

OWN_PREFIX: Final = "senro.dev"
"""The prefix of the keys of labels and annotations that are reserved for senro."""

RUN_VARIABLE: Final = "SENRO_RUN"
STEP_VARIABLE: Final = "SENRO_STEP"
ATTEMPT_VARIABLE: Final = "SENRO_ATTEMPT"
OWN_VARIABLES: Final = "SENRO_"
"""The prefix of the environment variables that are reserved for senro."""

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?")
_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_SECRET_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_NO_DNS: Final = re.compile(r"[^a-z0-9]+")
_NO_QUALIFIED: Final = re.compile(r"[^-_.A-Za-z0-9]+")

_MARK: Final = ".."
"""Precedes the hash of a shortened label value. Two dots in a row are legal there, and rare."""

_LABEL_HASH: Final = 26  # base32 characters: 130 bits
_NAME_HASH: Final = 16  # base32 characters: 80 bits; the nonce is compared as well
_LEASE: Final = "senro-ws-"
_SHORTENED: Final = re.compile(rf"(?:.*[A-Za-z0-9])?{re.escape('x' + _MARK)}[a-z2-7]{{{_LABEL_HASH}}}")


def is_dns_label(text: str) -> bool:
    """Whether `text` is a DNS-1123 label: the name of a namespace, a container, a volume."""
    return len(text) <= NAME_BYTES and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Whether `text` is a DNS-1123 subdomain: the name of a pod, a Secret, a ServiceAccount."""
    return len(text) <= SUBDOMAIN_BYTES and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether `text` may be the value of a label, which may be empty."""
    return not text or _is_qualified(text)


def is_label_key(text: str) -> bool:
    """Whether `text` may be the key of a label: a name, after an optional subdomain and `/`."""
    prefix, slash, name = text.rpartition("/")
    return _is_qualified(name) and (not slash or is_dns_subdomain(prefix))


def is_annotation_key(text: str) -> bool:
    """Whether `text` may be the key of an annotation: a label key, whose prefix may be in upper case."""
    return text.isascii() and is_label_key(text.lower())


def is_variable(text: str) -> bool:
    """Whether every supported apiserver accepts `text` as the name of an environment variable.

    The rule is that of versions before 1.32; later ones accept nearly any ASCII text.
    """
    return _VARIABLE.fullmatch(text) is not None and not _is_dotted(text)


def is_secret_key(text: str) -> bool:
    """Whether `text` may be a key of a Secret, and so the name of a file under `/run/senro/secrets`."""
    return len(text) <= SUBDOMAIN_BYTES and _SECRET_KEY.fullmatch(text) is not None and not _is_dotted(text)


def content_variable(kind: Literal["WORKSPACE", "SCRATCH"], name: str) -> str:
    """The variable with the path of a workspace or scratch cache; `name` is a DNS-1123 label. No other one has it."""
    return f"SENRO_{kind}_{name.upper().replace('-', '_')}"


def label_value(text: str) -> str:
    """A label value of at most 63 characters for any text; different texts have different values.

    A text that is a label value is returned as it is, unless it has the form of a shortened one. Any other text is
    shortened: what fits of it, `x..`, and 130 bits of its SHA-256.
    """
    if is_label_value(text) and _SHORTENED.fullmatch(text) is None:
        return text
    end = "x" + _MARK + _hashed(_LABEL_HASH, text)
    head = _NO_QUALIFIED.sub("-", text)[: NAME_BYTES - len(end)].strip("-_.")
    return head + end


def attempt_name(run_id: str, step_id: str, attempt: int, nonce: str) -> str:
    """The name of an attempt's pod and Secret: `build-make-1-<hash>`, a DNS-1123 label.

    It has at most 63 characters, as the pod's hostname does. The hash is of run, step, attempt and nonce.
    """
    end = "-" + _hashed(_NAME_HASH, run_id, step_id, str(attempt), nonce)
    number = f"-{attempt}"[:11]
    head = _NO_DNS.sub("-", step_id.lower())[: NAME_BYTES - len(end) - len(number)].strip("-") or "step"
    return head + number + end


def lease_name(workspace: str) -> str:
    """The name of the Lease of the claim that replaces a workspace: `senro-ws-<workspace>-<hash>`, a DNS-1123 label."""
    end = "-" + _hashed(_NAME_HASH, workspace)
    head = _NO_DNS.sub("-", workspace.lower())[: NAME_BYTES - len(end) - len(_LEASE)].strip("-") or "x"
    return _LEASE + head + end


def _is_qualified(text: str) -> bool:
    return len(text) <= NAME_BYTES and _QUALIFIED.fullmatch(text) is not None


def _is_dotted(text: str) -> bool:
    """Whether Kubernetes refuses `text` as the name of a file: `.`, `..`, and what begins with `..`."""
    return text == "." or text.startswith("..")


def _hashed(characters: int, *parts: str) -> str:
    """The first characters of the parts' SHA-256 in base32. ("a", "b") and ("ab", "") have different hashes."""
    seen = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        seen.update(b"%d:%b" % (len(data), data))
    return base64.b32encode(seen.digest()).decode().lower()[:characters]
