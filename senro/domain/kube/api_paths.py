"""Request targets of the apiserver: path and query, with each part escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlencode

VERSION = "/version"
"""The version of the apiserver, which anybody may read."""

_STRICT = "?fieldValidation=Strict"


def pods(namespace: str) -> str:
    """Creates pods. The apiserver refuses unknown fields instead of dropping them with a warning."""
    return _core(namespace, "pods") + _STRICT


def pod(namespace: str, name: str) -> str:
    """Reads or deletes a pod."""
    return _core(namespace, "pods", name)


def secrets(namespace: str) -> str:
    """Creates Secrets."""
    return _core(namespace, "secrets") + _STRICT


def secret(namespace: str, name: str, *, write: bool = False) -> str:
    """Deletes a Secret, or with `write` patches it."""
    return _core(namespace, "secrets", name) + (_STRICT if write else "")


def leases(namespace: str) -> str:
    """Creates Leases."""
    return _leases(namespace) + _STRICT


def lease(namespace: str, name: str, *, write: bool = False) -> str:
    """Reads or deletes a Lease, or with `write` replaces it."""
    return _leases(namespace, name) + (_STRICT if write else "")


def events(namespace: str, uid: str) -> str:
    """Lists the Events about the object `uid`."""
    return _join(_core(namespace, "events"), [("fieldSelector", f"involvedObject.uid={uid}")])


def log(
    namespace: str,
    name: str,
    container: str,
    *,
    follow: bool,
    since: str | None = None,
    tail_lines: int | None = None,
    limit_bytes: int | None = None,
) -> str:
    """Reads a container's log with timestamps. `since` is an RFC 3339 time, which the apiserver cuts to seconds."""
    query = [("container", container), ("timestamps", "true")]
    if follow:
        query.append(("follow", "true"))
    if since is not None:
        query.append(("sinceTime", since))
    if tail_lines is not None:
        query.append(("tailLines", str(tail_lines)))
    if limit_bytes is not None:
        query.append(("limitBytes", str(limit_bytes)))
    return _join(_core(namespace, "pods", name, "log"), query)


def exec_(namespace: str, name: str, container: str, command: Sequence[str], *, stdin: bool) -> str:
    """Runs an exec without a terminal (docs/design/exec-protocol.md#query-parameters)."""
    query = [("container", container), *(("command", word) for word in command)]
    if stdin:
        query.append(("stdin", "true"))
    query += [("stdout", "true"), ("stderr", "true")]
    return _join(_core(namespace, "pods", name, "exec"), query)


def _core(namespace: str, *parts: str) -> str:
    return _namespaced("/api/v1", namespace, *parts)


def _leases(namespace: str, *parts: str) -> str:
    return _namespaced("/apis/coordination.k8s.io/v1", namespace, "leases", *parts)


def _namespaced(api: str, namespace: str, *parts: str) -> str:
    for part in (namespace, *parts):
        if part in ("", ".", ".."):
            # An empty name would address the collection: `DELETE .../pods/` deletes every pod.
            raise ValueError(f"{part!r} is no name on an apiserver")
    escaped = "/".join(quote(part, safe="") for part in (namespace, *parts))
    return f"{api}/namespaces/{escaped}"


def _join(path: str, query: Iterable[tuple[str, str]]) -> str:
    return f"{path}?{urlencode(list(query), quote_via=quote, safe='')}"
