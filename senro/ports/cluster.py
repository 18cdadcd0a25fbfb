"""What senro asks of a cluster. Small protocols, joined by `Cluster`.

The life of an attempt, in five lines: a Secret may be created, the pod is created, the Secret is given its owner;
the pod is read until it settles; its log is followed while it runs; archives cross by exec, in and back; pod and
Secret are deleted by uid, on every path. Every method may be cancelled at any await and then leaves nothing open.

Every method raises `senro.domain.errors.ClusterError`s and no foreign type. Reads and deletes repeat themselves
through short troubles (connection errors, 429, 502, 503, 504, Retry-After respected) inside the adapter's budget;
creates and patches are sent once, because only the caller can tell whether a repetition is safe.

A request obeys the cancel scope of its caller and no other. What is asked for in a shielded scope is answered also
while everything around is cancelled: that is how an attempt that is cancelled deletes what it created.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from senro.domain.claims.lease import Lease
from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.exec_protocol import ExecEvent
from senro.domain.kube.pod import Pod

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON would have it: dicts, lists, strings, numbers, booleans, None."""

RETRY_SECONDS = 30.0
"""How long the adapter repeats a read or a deletion that fails; see the methods."""

CREATE_GRACE_SECONDS = 2.0
"""How long a create that is cancelled stays for the answer to a request that was sent already.

The cancellation goes on afterwards, answered or not. So whoever cancelled a create and was kept for less than this
knows that it has ended: a request that was not sent never will be, and a pod that was created is there to be read, a
Secret to be deleted. Only after the whole of it may an object still appear.
"""


class Pods(Protocol):
    """Pods of any namespace that the identity may touch."""

    async def create_pod(self, manifest: Manifest) -> Pod:
        """Create the pod once and return it as the apiserver stored it.

        On `AlreadyExists`, read it and adopt it if its nonce is yours. On `Unreachable` with `sent`, call again
        with the same manifest: `AlreadyExists` then means that the first call took effect. After a cancellation,
        read it: see `CREATE_GRACE_SECONDS`.
        """
        ...

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """Read the pod; None where there is none of that name (404). Compare its uid with yours."""
        ...

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        """Ask for the deletion of this very pod, by uid.

        `grace_seconds` None takes the pod's own terminationGracePeriodSeconds; 0 removes the object at once, and
        its processes may live on for a while. Returns True where there is no such pod any more (404, or another
        uid under that name), False where the deletion was accepted: then read until it is gone.
        """
        ...


class Logs(Protocol):
    """A container's output, as the kubelet kept it."""

    def follow_log(
        self, namespace: str, name: str, container: str, *, since: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Follow the log with timestamps; pieces of any size as they arrive, not cut at lines.

        `since` is an RFC 3339 time; the apiserver cuts it to whole seconds, so lines come twice. The iterator ends
        when the stream does, which says nothing about the container: read the pod, and follow again from the last
        timestamp while it runs. Raises `Rejected` (400) while the container has not started, `NotFound`,
        `Unavailable`, and `StreamBroken` for a stream that was cut.
        """
        ...

    async def read_log(self, namespace: str, name: str, container: str, *, since: str | None = None) -> bytes:
        """What the newest log file holds now, with timestamps, without following; at most 64 MiB of its end."""
        ...


class ExecSession(Protocol):
    """One running exec. One task may call `receive` while one other sends: read while writing, always."""

    async def send(self, data: bytes | memoryview) -> None:
        """Send to the command's stdin; returns when the transport took it. At most 128 KiB a call is sensible.

        Raises `StreamBroken` once the stream has ended; what was sent may or may not have been read.
        """
        ...

    async def close_stdin(self) -> None:
        """Give the command the end of its stdin. v5 only; a v4 session is never opened with stdin."""
        ...

    async def wait_until_received(self) -> None:
        """Return when the server has read all that was sent before this call; another task must receive meanwhile.

        For measuring a link: a server may never say so, so bound the wait, or do something else beside it. Raises
        `StreamBroken` where the stream ended first.
        """
        ...

    async def receive(self) -> ExecEvent:
        """The next event: `Stdout`, `Stderr`, or `Ended`, which is the last.

        `Ended` carries the exit code, or the server's words, or that the status was lost; a stream that is cut
        raises `StreamBroken`, and so does one that stays silent for longer than the idle bound it was opened with.
        """
        ...


class Execs(Protocol):
    """Commands in containers that run."""

    def exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, stdin: bool, idle_seconds: float
    ) -> AbstractAsyncContextManager[ExecSession]:
        """Run `command` in the container, without a shell, without a terminal.

        With `stdin`, `v5.channel.k8s.io` alone is offered (Kubernetes 1.30 or later), without it
        `v4.channel.k8s.io` alone: on v5 a slow reader silently loses the end of stdout. `idle_seconds` bounds the
        silence in both directions, never the total. Leaving the context closes the connection at once; the command
        may go on in the container. Errors before the 101 are `ApiError`s; a command that cannot start is an
        `Ended` without a code.
        """
        ...


class Secrets(Protocol):
    """Secrets that carry a step's secret files. They are never read back: the identity may not `get` them."""

    async def create_secret(self, manifest: Manifest) -> str:
        """Create the Secret once; returns its uid. Repeat as for `create_pod`; after a cancellation, delete it."""
        ...

    async def own_secret(self, namespace: str, name: str, *, owner: Pod) -> None:
        """Make the pod the Secret's owner, so that the garbage collector takes it when the pod is gone.

        The answer is checked: returns only where it holds the owner's uid.
        """
        ...

    async def delete_secret(self, namespace: str, name: str) -> None:
        """Delete the Secret; one that is gone is no error."""
        ...


class Events(Protocol):
    """What components of the cluster said about a pod. Best effort, and often not for this identity to read."""

    async def list_events(self, namespace: str, *, uid: str) -> tuple[ClusterEvent, ...] | None:
        """The Events about the pod `uid`, in no order; None where the identity may not list them: ask no more.

        Ask where `senro.domain.verdict.wants_events` says so, and give them to the next observation.
        """
        ...


class Leases(Protocol):
    """Leases of `coordination.k8s.io`, which exclude one another by their resourceVersion and by nothing else.

    What to do with one is `senro.domain.claims.lease_protocol`'s to say. A write that is cancelled stays for its
    answer as a create does (`CREATE_GRACE_SECONDS`): read the Lease to know whether it took effect.
    """

    async def read_lease(self, namespace: str, name: str) -> Lease | None:
        """Read the Lease as it is now; None where there is none of that name (404)."""
        ...

    async def create_lease(self, manifest: Manifest) -> Lease:
        """Create the Lease once. On `AlreadyExists`, and on `Unreachable` with `sent`, read it: it may be yours."""
        ...

    async def replace_lease(self, manifest: Manifest) -> Lease:
        """Replace, once, the Lease that has the manifest's uid and resourceVersion.

        Raises `Conflict` where it is another or has changed, `NotFound` where there is none: read it then.
        """
        ...

    async def delete_lease(self, namespace: str, name: str, *, uid: str, version: str) -> None:
        """Delete the Lease of that uid and resourceVersion; that there is none is no error.

        Raises `Conflict` where it is another or has changed: read it, and delete it again if it is yours.
        """
        ...


class Cluster(Pods, Logs, Execs, Secrets, Events, Leases, Protocol):
    """All of it, behind one connection. The name is the part of the address that a person may see."""

    @property
    def address(self) -> str:
        """Scheme, host and port of the apiserver."""
        ...

    async def version(self) -> str:
        """`gitVersion` of GET /version, such as `v1.36.2`. The cheapest proof that there is an apiserver.

        Meant for the first contact: where nothing answers it says so within seconds, not within the whole budget.
        """
        ...
