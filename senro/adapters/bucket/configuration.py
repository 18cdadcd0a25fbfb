"""Where scratch entries are shared: from `SENRO_REMOTE_SCRATCH` and the variables that begin with it.

Every problem is found before anything is sent, and all of them are told at once. Credentials are no part of it: obstore
reads them from the variables that are usual for each store (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
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
"""Seconds that one request may take; obstore's own default. A request carries 8 MiB at most."""

LONGEST_TIMEOUT: Final = 3600.0

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]")
"""Wide enough for every store's buckets: GCS has up to 222 characters, old S3 buckets capitals and underscores."""

_SEGMENT = re.compile(r"[A-Za-z0-9._+=@:,!()*' -]+")
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")


@dataclass(frozen=True, slots=True)
class Location:
    """A place that was checked. `bucket` is a container on Azure; with `file` it is "", and `prefix` the folder."""

    scheme: Scheme
    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""
    timeout: float = DEFAULT_TIMEOUT
    read_only: bool = False

    @property
    def name(self) -> str:
        """The URL. It holds no credential: a location with one is refused."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix.lstrip('/')}" if self.prefix else "")


def read_location(env: Mapping[str, str]) -> Location | None:
    """The location in `env`; an empty variable counts as missing, and None says that there is none.

    Raises `ConfigurationError` with every problem: an unknown or contradictory variable, a value that cannot work.
    """
    reader = _Reader(env)
    location = reader.read()
    if reader.refusals:
        raise ConfigurationError(tuple(reader.refusals))
    return location


class _Reader:
    """One reading: it collects what is wrong. The value of a URL is never quoted, since it may hold a password."""

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
                self._refuse(name, "missing", f"is set, which needs {PLACE}; set that too, or unset this")
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
            self._refuse(PLACE, "url", "holds a control character, a query or a fragment; end it at the path")
            return None
        netloc, _, path = rest.partition("/")
        if scheme == "file":
            return self._folder(netloc, f"/{path}")
        if "@" in netloc:
            self._refuse(
                PLACE,
                "userinfo",
                "must carry no user or password; set the store's own variables, such as "
                "AWS_ACCESS_KEY_ID, and take them out",
            )
            return None
        if not _BUCKET.fullmatch(netloc):
            self._refuse(PLACE, "bucket", "names no bucket after ://; write 3 to 222 letters, digits and . _ -")
            return None
        segments = path.strip("/").split("/") if path.strip("/") else []
        if any(segment in (".", "..") or not _SEGMENT.fullmatch(segment) for segment in segments):
            self._refuse(
                PLACE,
                "prefix",
                "has an empty, `.` or `..` folder after the bucket, or a character that "
                "object names do not share; use letters, digits and . _ - + = @",
            )
            return None
        return cast("Scheme", scheme), netloc, "/".join(segments)

    def _folder(self, host: str, path: str) -> tuple[Scheme, str, str] | None:
        folder = unquote(path).rstrip("/")
        if host not in ("", "localhost"):
            self._refuse(PLACE, "url", "names a host, which a folder has not; write three slashes: file:///folder")
            return None
        if not folder or "\0" in folder or any(part in ("", ".", "..") for part in folder.split("/")[1:]):
            self._refuse(PLACE, "url", "names no folder by its whole path; write it from the root: file:///folder")
            return None
        return "file", "", folder

    def _endpoint(self, scheme: Scheme) -> str:
        value = self._env.get(ENDPOINT, "")
        if not value:
            return ""
        if scheme == "file":
            self._refuse(ENDPOINT, "contradiction", "is for object stores, and a folder has none; unset it")
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
                "is no URL of a store; write http:// or https://, its host and port, and no "
                "user, password, query or fragment",
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
            self._refuse(REGION, "region", "is no region; write one such as eu-central-1")
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
