"""Classifies the exceptions of obstore.

obstore raises one exception for most failures, which differ in their text, and the text quotes requests, whose URLs may
contain a signature. It is therefore never passed on: messages are made of the HTTP status, the store's error code and
the kind of failure, which are searched in the text. tests/unit/adapters/bucket/test_failures.py has texts of real
stores.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["absent", "exists", "refused", "unreachable"]
"""The kinds of failures.

- `absent`: the object does not exist.
- `exists`: a conditional put found an object.
- `refused`: the configuration cannot work, so a retry is useless: a bucket that does not exist, wrong or missing
  credentials or rights, another region.
- `unreachable`: everything else.
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure; `message` are a clause that contains no secret."""

    kind: Kind
    message: str


def classify_failure(error: BaseException, *, timeout: float) -> Failure:
    """Classify the exception of an obstore call. `timeout`: the bound of a request in seconds, for the message."""
    name, text = type(error).__name__, str(error)
    if name in ("AlreadyExistsError", "PreconditionError"):
        return Failure("exists", "it exists already")
    if any(host in text for host in _METADATA):
        # obstore asks for the machine's identity only if no variable has credentials.
        return Failure("refused", "no credentials were found; set the store's own variables, such as AWS_ACCESS_KEY_ID")
    absent = isinstance(error, FileNotFoundError)
    found = _from_status(text, absent=absent) or _from_os_error(text, absent=absent) or _from_transport(text, timeout)
    if found is not None:
        return found
    if any(sign in text for sign in _SETTINGS):
        return Failure("refused", "its settings cannot be used; check SENRO_REMOTE_SCRATCH and the store's variables")
    return Failure("unreachable", f"it failed for an unknown reason ({name})")


def _from_status(text: str, *, absent: bool) -> Failure | None:
    """The failure that the store reported by an HTTP status."""
    status, code = _search(_STATUS, text), _search(_CODE, text)
    if not status:
        return None
    answer = f"{status} {code}".rstrip()
    if absent and code not in _NO_BUCKET:
        return Failure("absent", "it does not exist")
    match int(status):
        case 404:
            # A missing object is `absent`, so this was the listing of a bucket.
            return Failure("refused", f"the bucket does not exist ({answer})")
        case 401 | 403:
            return Failure("refused", f"the credentials do not allow it ({answer})")
        case 301 | 302 | 307 | 308 | 400:
            return Failure("refused", f"it rejects the request ({answer}); check the region and the endpoint")
        case 408 | 409 | 425 | 429:
            return Failure("unreachable", f"it cannot answer now ({answer})")
        case other if other >= 500:
            return Failure("unreachable", f"it cannot answer now ({answer})")
        case _:
            return Failure("refused", f"it rejects the request ({answer})")


def _from_os_error(text: str, *, absent: bool) -> Failure | None:
    """The failure that the operating system reported for a folder."""
    if absent:
        return Failure("absent", "it does not exist")
    number = _search(_OS_ERROR, text)
    if not number or any(sign in text for sign in _TRANSPORT):
        return None
    kind: Kind = "refused" if int(number) in _NOT_ALLOWED else "unreachable"
    return Failure(kind, f"the system says: {os.strerror(int(number))}")


def _from_transport(text: str, timeout: float) -> Failure | None:
    """The failure of a connection."""
    if "redirect" in text.lower():
        return Failure("refused", "the bucket is in another region; set SENRO_REMOTE_SCRATCH_REGION")
    if _TIMED_OUT.search(text):
        return Failure("unreachable", f"it did not answer within {timeout:g} s")
    if any(sign in text for sign in _TRANSPORT):
        return Failure("unreachable", "the connection failed")
    return None


_METADATA: Final = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_SETTINGS: Final = ("builder error", "Unable to parse", "Unable to canonicalize")
_TRANSPORT: Final = ("error sending request", "kind: Connect", "kind: Body", "request or response body", "HTTP error")
_OS_ERROR = re.compile(r"\(os error (\d{1,4})\)")
_STATUS = re.compile(r"status code: (\d{3})\b|\bstatus: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|\"reason\": ?\"([A-Za-z]{1,60})\"")
_TIMED_OUT = re.compile(r"kind: Timeout|TimedOut|operation timed out", re.IGNORECASE)


def _search(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return next((group for group in match.groups() if group), "") if match else ""
