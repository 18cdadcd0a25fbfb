"""Reads the location of the shared scratch store from `SENRO_REMOTE_SCRATCH` and the variables that begin with it.

All problems are reported at once, before anything is sent. Credentials are not read here: obstore reads them from the
usual variables of each store (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast
from urllib.parse import unquote, urlsplit

from senro.domain.errors import ConfigurationError, Refusal

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


class _VariableReader:
    """Reads one environment and collects its problems. Never quotes a URL, which may contain a password."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: value.strip() for name, value in env.items() if name.startswith(PLACE) and value.strip()}
        self.refusals: list[Refusal] = []

    def _refuse(self, where: str, rule: str, message: str) -> None:
        self.refusals.append(Refusal(where=where, rule=rule, message=message))

    def read(self) -> Location | None:
        self._unknown()
        timeout, read_only = self._timeout(), self._read_only()
        if PLACE not in self._env:
            for name in sorted(self._env.keys() & set(KNOWN)):
                self._refuse(name, "missing", f"is set, but {PLACE} is not; set that too, or unset this")
            return None
        place = self._place(self._env[PLACE])
        if place is None:
            return None
        scheme, bucket, prefix = place
        endpoint, region = self._endpoint(scheme), self._region(scheme)
        return Location(scheme, bucket, prefix, endpoint, region, timeout, read_only)

    def _unknown(self) -> None:
        for name in sorted(self._env.keys() - set(KNOWN)):
            near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)
            hint = f"did you mean {near[0]}?" if near else f"senro reads {', '.join(KNOWN)}"
            self._refuse(name, "unknown", f"no such setting; {hint}")

    def _place(self, value: str) -> tuple[Scheme, str, str] | None:
        scheme, separator, rest = value.partition("://")
        if not separator or scheme not in SCHEMES:
            self._refuse(
                PLACE,
                "scheme",
                "must be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or "
                "file:///folder; write one of them",
            )
            return None
        if any(character < " " or character == "\x7f" for character in value) or "?" in value or "#" in value:
            self._refuse(PLACE, "url", "has a control character, a query or a fragment; end it at the path")
            return None
        netloc, _, path = rest.partition("/")
        if scheme == "file":
            return self._folder(netloc, f"/{path}")
        if "@" in netloc:
            self._refuse(
                PLACE,
                "userinfo",
                "must not contain a user or password; remove them, and set the store's own variables, such as "
                "AWS_ACCESS_KEY_ID",
            )
            return None
        if not _BUCKET.fullmatch(netloc):
            self._refuse(
                PLACE, "bucket", "has no valid bucket name after ://; write 3 to 222 letters, digits and . _ -"
            )
            return None
        segments = path.strip("/").split("/") if path.strip("/") else []
        if any(segment in (".", "..") or not _SEGMENT.fullmatch(segment) for segment in segments):
            self._refuse(
                PLACE,
                "prefix",
                "has an empty, `.` or `..` folder after the bucket, or a character that some stores refuse; use "
                "letters, digits and . _ - + = @",
            )
            return None
        return cast("Scheme", scheme), netloc, "/".join(segments)

    def _folder(self, host: str, path: str) -> tuple[Scheme, str, str] | None:
        folder = unquote(path).rstrip("/")
        if host not in ("", "localhost"):
            self._refuse(PLACE, "url", "names a host, which folders do not have; write three slashes: file:///folder")
            return None
        if not folder or "\0" in folder or any(part in ("", ".", "..") for part in folder.split("/")[1:]):
            self._refuse(PLACE, "url", "is not the absolute path of a folder; write it from the root: file:///folder")
            return None
        return "file", "", folder

    def _endpoint(self, scheme: Scheme) -> str:
        value = self._env.get(ENDPOINT, "")
        if not value:
            return ""
        if scheme == "file":
            self._refuse(ENDPOINT, "contradiction", "is for object stores, and folders have no endpoint; unset it")
            return ""
        try:
            parts = urlsplit(value)
            fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            fine = False
        if not fine or any(character <= " " or character == "\x7f" for character in value) or set("?#@") & set(value):
            self._refuse(
                ENDPOINT,
                "url",
                "is not the URL of a store; write http:// or https://, the host and the port, without user, "
                "password, query or fragment",
            )
            return ""
        return value.rstrip("/")

    def _region(self, scheme: Scheme) -> str:
        value = self._env.get(REGION, "")
        if not value:
            return ""
        if scheme != "s3":
            self._refuse(REGION, "contradiction", f"is for s3://, and {PLACE} is {scheme}://; unset it")
        elif not _REGION.fullmatch(value):
            self._refuse(REGION, "region", "is not a region; write one such as eu-central-1")
        return value

    def _timeout(self) -> float:
        value = self._env.get(TIMEOUT)
        if value is None:
            return DEFAULT_TIMEOUT
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= LONGEST_TIMEOUT:
            self._refuse(
                TIMEOUT, "timeout", f"is {value!r}; write seconds, more than 0 and at most {LONGEST_TIMEOUT:g}"
            )
            return DEFAULT_TIMEOUT
        return seconds

    def _read_only(self) -> bool:
        value = self._env.get(READ_ONLY, "0")
        if value.lower() not in (*_YES, *_NO):
            self._refuse(READ_ONLY, "choice", f"is {value!r}; write 1, true or yes, or 0, false or no")
        return value.lower() in _YES
