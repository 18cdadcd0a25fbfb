"""Reads the address of the apiserver and the credential from the variables SENRO_K8S_*.

senro reads no kubeconfig, no service account of a pod, and no other variable, such as HTTPS_PROXY. Every problem is
found before anything is sent, and all of them are reported at once.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from senro.adapters.apiserver.certificates import check_bundle, check_pair
from senro.domain.errors import ConfigurationError, Refusal

PREFIX = "SENRO_K8S_"
SERVER = "SENRO_K8S_SERVER"
CA_FILE = "SENRO_K8S_CA_FILE"
TOKEN_FILE = "SENRO_K8S_TOKEN_FILE"  # noqa: S105 - the name of a variable
TOKEN = "SENRO_K8S_TOKEN"  # noqa: S105 - the name of a variable
CERT_FILE = "SENRO_K8S_CLIENT_CERT_FILE"
KEY_FILE = "SENRO_K8S_CLIENT_KEY_FILE"
PROXY = "SENRO_K8S_PROXY"
KNOWN = (SERVER, CA_FILE, TOKEN_FILE, TOKEN, CERT_FILE, KEY_FILE, PROXY)

FILE_LIMIT = 4 * 1024 * 1024
"""How many bytes of a token, certificate or key are read; the largest public CA bundles have 256 KiB."""

_T = TypeVar("_T")

_CREDENTIALS = f"{TOKEN_FILE}, {TOKEN}, or {CERT_FILE} with {KEY_FILE}"


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The path of a file with a bearer token; a new token replaces the file."""

    path: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token."""

    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The paths of a client certificate and its key, both PEM."""

    cert_file: str
    key_file: str


Credential = TokenFile | Token | ClientCertificate
"""How senro authenticates itself."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked configuration.

    server: the URL of the apiserver, without a trailing slash.
    ca: the CA bundle, as PEM.
    credential: how senro authenticates itself.
    proxy: the URL of an HTTP proxy; None for none.
    """

    server: str
    ca: str = field(repr=False)
    credential: Credential
    proxy: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Scheme, host and port of `server`."""
        parts = urlsplit(self.server)
        return f"{parts.scheme}://{parts.netloc}"


def read_configuration(env: Mapping[str, str], *, now: datetime) -> Configuration:
    """Read the variables of `env`; an empty one counts as missing. `now` decides whether certificates are valid.

    Raises `ConfigurationError` with every problem: variables that are missing, contradictory or unknown, a file that
    cannot be read, a CA bundle without a certificate, a key that does not belong to its certificate, an expired
    certificate.
    """
    reader = _VariableReader(env, now)
    configuration = reader.read()
    if configuration is None:
        raise ConfigurationError(tuple(reader.refusals))
    return configuration


class _Refused(Exception):
    """Ends the reading of one variable. Its arguments are those of `Refusal`."""


class _VariableReader:
    """Reads the variables and collects the problems."""

    def __init__(self, env: Mapping[str, str], now: datetime) -> None:
        self._env = {name: value.strip() for name, value in env.items() if name.startswith(PREFIX) and value.strip()}
        self._now = now
        self.refusals: list[Refusal] = []

    def read(self) -> Configuration | None:
        """Returns the configuration, None if there are refusals."""
        for name in sorted(self._env.keys() - set(KNOWN)):
            self._refuse(name, "unknown", f"no such setting; {_hint(name)}")
        server, ca = self._try(self._server), self._try(self._ca)
        credential, proxy = self._credential(), self._try(self._proxy)
        if self.refusals or server is None or ca is None or credential is None:
            return None
        return Configuration(server=server, ca=ca, credential=credential, proxy=proxy)

    def _refuse(self, where: str, rule: str, message: str) -> None:
        self.refusals.append(Refusal(where=where, rule=rule, message=message))

    def _try(self, read: Callable[[], _T]) -> _T | None:
        """Returns the result of `read`, None after it was refused."""
        try:
            return read()
        except _Refused as refused:
            self._refuse(*refused.args)
            return None

    def _server(self) -> str:
        value = self._env.get(SERVER)
        if value is None:
            raise _Refused(SERVER, "missing", "set it to the apiserver's URL, such as https://10.0.0.1:6443")
        if "@" in _split_url(SERVER, value, "https://").netloc:
            raise _Refused(SERVER, "userinfo", f"must carry no user or password; use {_CREDENTIALS}")
        if "?" in value or "#" in value:
            raise _Refused(SERVER, "query", "must end at the path: no query and no fragment")
        return value.rstrip("/")

    def _ca(self) -> str:
        path = self._env.get(CA_FILE)
        if path is None:
            raise _Refused(
                CA_FILE, "missing", "set it to a PEM file with the CA that signed the apiserver's certificate"
            )
        data = _read_file(CA_FILE, path)
        problem = check_bundle(data, now=self._now)
        if problem is not None:
            raise _Refused(CA_FILE, problem.rule, f"{path}: {problem.message}")
        return data.decode("ascii", "ignore")

    def _credential(self) -> Credential | None:
        pair = [name for name in (CERT_FILE, KEY_FILE) if name in self._env]
        kinds = [name for name in (TOKEN_FILE, TOKEN) if name in self._env] + pair[:1]
        if not kinds:
            self._refuse(TOKEN_FILE, "missing", f"no credential: set one of {_CREDENTIALS}")
        if len(kinds) > 1:
            given = ", ".join(name for name in (TOKEN_FILE, TOKEN, *pair) if name in self._env)
            self._refuse(kinds[0], "contradiction", f"more than one credential ({given}): set one of {_CREDENTIALS}")
        found: list[Credential | None] = []
        if TOKEN_FILE in self._env:
            found.append(self._try(self._token_file))
        if TOKEN in self._env:
            found.append(self._try(self._token))
        if pair:
            found.append(self._pair(pair))
        return found[0] if len(found) == 1 else None

    def _token_file(self) -> TokenFile:
        path = self._env[TOKEN_FILE]
        token = _read_file(TOKEN_FILE, path).strip()
        if not token:
            raise _Refused(TOKEN_FILE, "empty", f"{path} is empty")
        if not is_token(token):
            raise _Refused(TOKEN_FILE, "token", f"{path} must contain one token on one line, and nothing else")
        return TokenFile(path)

    def _token(self) -> Token:
        value = self._env[TOKEN]
        if not is_token(value.encode("utf-8", "replace")):
            raise _Refused(TOKEN, "token", "must contain one token: no blanks, and no characters beyond ASCII")
        return Token(value)

    def _pair(self, given: list[str]) -> ClientCertificate | None:
        for name, other in ((CERT_FILE, KEY_FILE), (KEY_FILE, CERT_FILE)):
            if name not in given:
                self._refuse(name, "missing", f"{other} is set, which needs it")
        files = {name: self._try(partial(_read_file, name, self._env[name])) for name in given}
        cert, key = files.get(CERT_FILE), files.get(KEY_FILE)
        if cert is None or key is None:
            return None
        problems = check_pair(cert, key, now=self._now)
        for problem in problems:
            where = KEY_FILE if problem.about_key else CERT_FILE
            self._refuse(where, problem.rule, f"{self._env[where]}: {problem.message}")
        return None if problems else ClientCertificate(self._env[CERT_FILE], self._env[KEY_FILE])

    def _proxy(self) -> str | None:
        value = self._env.get(PROXY)
        if value is None:
            return None
        if _split_url(PROXY, value, "http://", "https://").path not in ("", "/") or "?" in value or "#" in value:
            raise _Refused(PROXY, "query", "must end at the port: no path, no query and no fragment")
        return value.rstrip("/")


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)
    return f"did you mean {near[0]}?" if near else f"senro reads {', '.join(KNOWN)}"


def _split_url(where: str, value: str, *schemes: str) -> SplitResult:
    # Messages do not quote the value: it may contain a password.
    if not value.lower().startswith(schemes):
        raise _Refused(where, "scheme", f"must begin with {' or '.join(schemes)}")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
        if parts.netloc.rpartition("@")[2].startswith("["):
            ipaddress.IPv6Address(host or "")
    except ValueError:
        raise _Refused(where, "url", "is no URL: check the port, and put an IPv6 address in brackets") from None
    if not host:
        raise _Refused(where, "url", "has no host")
    if any(character <= " " or character == "\x7f" for character in value):
        raise _Refused(where, "url", "has a blank or a control character in it")
    return parts


def _read_file(where: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of the environment is opened as it is
            return file.read(FILE_LIMIT)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise _Refused(where, "unreadable", f"{path} cannot be read: {reason}") from None


def is_token(data: bytes) -> bool:
    """Returns whether an Authorization header can carry `data`: printable ASCII, no blanks (RFC 6750 section 2.1)."""
    return bool(data) and all(0x21 <= byte <= 0x7E for byte in data)
