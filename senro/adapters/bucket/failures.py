"""What obstore raises, in our words.

obstore tells most failures apart by the text of one exception alone, and that text quotes requests, whose URLs may
hold a signature. So its words are never passed on: what is told is made of the status, the store's own error code and
the kind of failure, which are looked for in the text.
tests/unit/adapters/bucket/test_failures.py has texts of real stores.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["absent", "exists", "refused", "unreachable"]
"""`absent`: no such object. `exists`: a conditional put found one. `refused`: asking again is useless, the
configuration cannot work: no such bucket, wrong or missing credentials or rights, another region. `unreachable`:
everything else."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure; `message` are a clause that quotes nothing secret."""

    kind: Kind
    message: str


def classify_failure(error: BaseException, *, timeout: float) -> Failure:
    """What the exception of an obstore call says. `timeout` is the bound of a request in seconds."""
    name, text = type(error).__name__, str(error)
    if name in ("AlreadyExistsError", "PreconditionError"):
        return Failure("exists", "it is there already")
    if any(host in text for host in _METADATA):
        # Asked only where no variable gives a credential: the machine's own identity is the last thing tried.
        return Failure("refused", "no credentials were found; set the store's own variables, such as AWS_ACCESS_KEY_ID")
    absent = isinstance(error, FileNotFoundError)
    found = _from_status(text, absent=absent) or _from_os_error(text, absent=absent) or _from_transport(text, timeout)
    if found is not None:
        return found
    if any(sign in text for sign in _SETTINGS):
        return Failure("refused", "its settings cannot be used; check SENRO_REMOTE_SCRATCH and the store's variables")
    return Failure("unreachable", f"it failed in a way that is not known ({name})")


def _from_status(text: str, *, absent: bool) -> Failure | None:
    """What the store itself said, by its HTTP status."""
    status, code = _search(_STATUS, text), _search(_CODE, text)
    if not status:
        return None
    said = f"{status} {code}".rstrip()
    if absent and code not in _NO_BUCKET:
        return Failure("absent", "it is not there")
    match int(status):
        case 404:
            # Of an object it is `absent`, so this is the listing of a bucket.
            return Failure("refused", f"there is no such bucket ({said})")
        case 401 | 403:
            return Failure("refused", f"the credentials do not allow it ({said})")
        case 301 | 302 | 307 | 308 | 400:
            return Failure("refused", f"it does not take the request ({said}); check the region and the endpoint")
        case 408 | 409 | 425 | 429:
            return Failure("unreachable", f"it cannot answer now ({said})")
        case other if other >= 500:
            return Failure("unreachable", f"it cannot answer now ({said})")
        case _:
            return Failure("refused", f"it does not take the request ({said})")


def _from_os_error(text: str, *, absent: bool) -> Failure | None:
    """What the operating system said of a folder."""
    if absent:
        return Failure("absent", "it is not there")
    number = _search(_OS_ERROR, text)
    if not number or any(sign in text for sign in _TRANSPORT):
        return None
    kind: Kind = "refused" if int(number) in _NOT_ALLOWED else "unreachable"
    return Failure(kind, f"the system says: {os.strerror(int(number))}")


def _from_transport(text: str, timeout: float) -> Failure | None:
    """What kept a request or its answer from crossing."""
    if "redirect" in text.lower():
        return Failure("refused", "it lies in another region; set SENRO_REMOTE_SCRATCH_REGION")
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
