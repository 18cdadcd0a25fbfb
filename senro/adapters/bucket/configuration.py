"""Reads the location of the shared scratch store from `SENRO_REMOTE_SCRATCH` and the variables that begin with it.

All problems are reported at once, before anything is sent. Credentials are not read here: obstore reads them from the
usual variables of each store (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeVar, cast
from urllib.parse import unquote, urlsplit

from senro.domain.errors import ConfigurationError, Refusal

T = TypeVar("T")

PLACE = "SENRO_REMOTE_SCRATCH"
ENDPOINT = "SENRO_REMOTE_SCRATCH_ENDPOINT"
REGION = "SENRO_REMOTE_SCRATCH_REGION"
TIMEOUT = "SENRO_REMOTE_SCRATCH_TIMEOUT"
READ_ONLY = "SENRO_REMOTE_SCRATCH_READ_ONLY"
KNOWN = (PLACE, ENDPOINT, REGION, TIMEOUT, READ_ONLY)

Scheme = Literal["s3", "gs", "az", "file"]

SCHEMES: Final = ("s3", "gs", "az", "file")

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds that one request may take; the default of obstore. A request carries at most 8 MiB."""

LONGEST_TIMEOUT: Final = 3600.0

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]")
"""Matches the names of all stores: GCS allows 222 characters, old S3 buckets may have capitals and underscores."""

_SEGMENT = re.compile(r"[A-Za-z0-9._+=@:,!()*' -]+")
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")


@dataclass(frozen=True, slots=True)
class Location:
    """A validated location.

    `bucket`: the bucket, a container on Azure; empty with the scheme `file`.
    `prefix`: the prefix of all object names; the path of the folder with the scheme `file`.
    `endpoint`, `region`: empty for the store's default.
    `timeout`: seconds that one request may take.
    `read_only`: whether entries are only restored, never saved.
    """

    scheme: Scheme
    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""
    timeout: float = DEFAULT_TIMEOUT
    read_only: bool = False

    @property
    def name(self) -> str:
        """The URL. It contains no credential, since `read_location` refuses those."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix.lstrip('/')}" if self.prefix else "")


def read_location(env: Mapping[str, str]) -> Location | None:
    """The location that `env` configures, None if there is none. An empty variable counts as missing.

    Raises `ConfigurationError` with all problems: unknown or contradictory variables, and invalid values.
    """
    reader = _VariableReader(env)
    location = reader.read()
    if reader.refusals:
        raise ConfigurationError(tuple(reader.refusals))
    return location


class _InvalidValueError(Exception):
    """A variable has an invalid value: the rule, and the message of the refusal."""


class _VariableReader:
    """Reads one environment and collects its problems. Never quotes a URL, which may contain a password."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: value.strip() for name, value in env.items() if name.startswith(PLACE) and value.strip()}
        self.refusals: list[Refusal] = []

    def read(self) -> Location | None:
        for name in sorted(self._env.keys() - set(KNOWN)):
            near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)
            hint = f"did you mean {near[0]}?" if near else f"senro reads {', '.join(KNOWN)}"
            self._refuse(name, "unknown", f"no such setting; {hint}")
        timeout = self._value(TIMEOUT, _timeout, DEFAULT_TIMEOUT)
        read_only = self._value(READ_ONLY, _choice, default=False)
        if PLACE not in self._env:
            for name in sorted(self._env.keys() & set(KNOWN)):
                self._refuse(name, "missing", f"is set, but {PLACE} is not; set that too, or unset this")
            return None
        place = self._value(PLACE, _place, None)
        if place is None:
            return None
        scheme, bucket, prefix = place
        endpoint = self._value(ENDPOINT, partial(_endpoint, scheme), "")
        region = self._value(REGION, partial(_region, scheme), "")
        return Location(scheme, bucket, prefix, endpoint, region, timeout, read_only)

    def _refuse(self, where: str, rule: str, message: str) -> None:
        self.refusals.append(Refusal(where=where, rule=rule, message=message))

    def _value(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """The parsed value of a variable; `default` if it is missing or refused."""
        if name in self._env:
            try:
                return parse(self._env[name])
            except _InvalidValueError as error:
                self._refuse(name, *error.args)
        return default


def _place(value: str) -> tuple[Scheme, str, str] | None:
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in SCHEMES:
        places = "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder"
        raise _InvalidValueError("scheme", f"must be {places}; write one of them")
    if any(character < " " or character == "\x7f" for character in value) or "?" in value or "#" in value:
        raise _InvalidValueError("url", "has a control character, a query or a fragment; end it at the path")
    netloc, _, path = rest.partition("/")
    if scheme == "file":
        return "file", "", _folder(netloc, f"/{path}")
    if "@" in netloc:
        fix = "remove them, and set the store's own variables, such as AWS_ACCESS_KEY_ID"
        raise _InvalidValueError("userinfo", f"must not contain a user or password; {fix}")
    if not _BUCKET.fullmatch(netloc):
        fix = "write 3 to 222 letters, digits and . _ -"
        raise _InvalidValueError("bucket", f"has no valid bucket name after ://; {fix}")
    segments = path.strip("/").split("/") if path.strip("/") else []
    if any(segment in (".", "..") or not _SEGMENT.fullmatch(segment) for segment in segments):
        problem = "has an empty, `.` or `..` folder after the bucket, or a character that some stores refuse"
        raise _InvalidValueError("prefix", f"{problem}; use letters, digits and . _ - + = @")
    return cast("Scheme", scheme), netloc, "/".join(segments)


def _folder(host: str, path: str) -> str:
    folder = unquote(path).rstrip("/")
    if host not in ("", "localhost"):
        raise _InvalidValueError("url", "names a host, which folders do not have; write three slashes: file:///folder")
    if not folder or "\0" in folder or any(part in ("", ".", "..") for part in folder.split("/")[1:]):
        raise _InvalidValueError("url", "is not the absolute path of a folder; write it from the root: file:///folder")
    return folder


def _endpoint(scheme: Scheme, value: str) -> str:
    if scheme == "file":
        raise _InvalidValueError("contradiction", "is for object stores, and folders have no endpoint; unset it")
    try:
        parts = urlsplit(value)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or any(character <= " " or character == "\x7f" for character in value) or set("?#@") & set(value):
        fix = "write http:// or https://, the host and the port, without user, password, query or fragment"
        raise _InvalidValueError("url", f"is not the URL of a store; {fix}")
    return value.rstrip("/")


def _region(scheme: Scheme, value: str) -> str:
    if scheme != "s3":
        raise _InvalidValueError("contradiction", f"is for s3://, and {PLACE} is {scheme}://; unset it")
    if not _REGION.fullmatch(value):
        raise _InvalidValueError("region", "is not a region; write one such as eu-central-1")
    return value


def _timeout(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT:
        fix = f"write seconds, more than 0 and at most {LONGEST_TIMEOUT:g}"
        raise _InvalidValueError("timeout", f"is {value!r}; {fix}")
    return seconds


def _choice(value: str) -> bool:
    if value.lower() not in (*_YES, *_NO):
        raise _InvalidValueError("choice", f"is {value!r}; write 1, true or yes, or 0, false or no")
    return value.lower() in _YES
