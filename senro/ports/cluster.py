"""The requests that senro sends to a cluster: small protocols, which `Cluster` joins.

Every method raises subclasses of `senro.domain.errors.ClusterError` and no type of another library. Every method may be
cancelled at any await and then leaves nothing open. A request obeys the cancel scope of its caller and no other: a
request from a shielded scope goes on while everything around it is cancelled, so that an attempt can delete what it
created.

Who repeats a failed request stands once in docs/design/attempt.md#repeated-requests. A method that says "repeats
failures that may pass" does so for `RETRY_SECONDS`, after connection errors, 429, 502, 503, 504, a 500 of a webhook or
of etcd, and any 5xx with Retry-After; an error that it raises is final, or has lasted that long, or requests a delay
beyond it. A caller that polls makes its next poll at the usual time, but not before that delay. Every other method
sends its request once. All of them repeat a 401 once if the token file has changed.
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
"""A Kubernetes object as decoded JSON: dicts, lists, strings, numbers, booleans, None."""

RETRY_SECONDS = 30.0
"""How long the adapter repeats a request that is safe to repeat."""

CREATE_GRACE_SECONDS = 2.0
"""How long a create that is cancelled waits for the answer to a request that was already sent.

A cancellation that took less than this is certain: a request that was not sent will not be sent, and a pod that was
created can be read, a Secret can be deleted. If it took the whole time, the object may still appear later.
"""


class Pods(Protocol):
    """Pods, in any namespace in which the identity has the rights."""

    async def create_pod(self, manifest: Manifest) -> Pod:
        """Send one create. Returns the pod as the apiserver stored it.

        After an error the caller decides by `senro.domain.verdict.creation`. On `AlreadyExists` it reads the pod and
        adopts it if the nonce is its own. On `Unreachable` with `sent` the pod may exist: it reads the pod before it
        calls again. After a cancellation it reads the pod too, see `CREATE_GRACE_SECONDS`.
        """

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """Returns the pod, None if there is none of that name (404). The caller compares the uid.

        Repeats failures that may pass.
        """

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        """Request the deletion of the pod with this uid.

        Returns True if it does not exist any more (404, or the name has another uid), False if the apiserver accepted
        the deletion: the caller then reads the pod until it is gone. `grace_seconds` None means the pod's own
        terminationGracePeriodSeconds; 0 removes the object at once, and its processes may live on for a while.
        Repeats failures that may pass.
        """


class Logs(Protocol):
    """The output of a container, as its kubelet stored it."""

    def follow_log(
        self, namespace: str, name: str, container: str, *, since: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Follow the log, with timestamps. Yields bytes as they arrive; a piece may end inside a line.

        `since` is an RFC 3339 time, which the apiserver cuts to whole seconds, so lines may come twice. The iterator
        ends with the stream, which does not prove that the container ended: the caller reads the pod. While the
        container runs, it follows again from the last timestamp. Sends the request once. Raises `Rejected` (400) before
        the container has started, `NotFound`, `Unavailable`, and `StreamBroken` if the stream was cut.
        """

    async def read_log(self, namespace: str, name: str, container: str, *, since: str | None = None) -> bytes:
        """Returns the newest log file as it is now, with timestamps: at most the last 64 MiB of it.

        Sends the request once. After `StreamBroken` and after failures that may pass the caller calls again.
        """


class ExecSession(Protocol):
    """One running exec. One task calls `receive` while another one sends; both must go on at the same time."""

    async def send(self, data: bytes | memoryview) -> None:
        """Write `data` to the command's stdin. Returns once the transport has accepted all of it.

        Raises `StreamBroken` if the stream has ended; the command may or may not have read what was sent before.
        """

    async def close_stdin(self) -> None:
        """End the command's stdin. Needs v5; a session with stdin always has it."""

    async def wait_until_received(self) -> None:
        """Return once the server has read everything that was sent before this call. Another task must be receiving.

        It measures the rate of a link. A server may never confirm it, so the caller bounds the wait. Raises
        `StreamBroken` if the stream ends first.
        """

    async def receive(self) -> ExecEvent:
        """Returns the next event: `Stdout`, `Stderr`, or `Ended`, which is the last.

        `Ended` has the exit code, or the server's error message, or says that the status was lost. Raises
        `StreamBroken` if the stream was cut, or was silent for the `idle_seconds` of `Execs.exec`.
        """


class Execs(Protocol):
    """Commands in running containers."""

    def exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, stdin: bool, idle_seconds: float
    ) -> AbstractAsyncContextManager[ExecSession]:
        """Run `command` in the container, without a shell and without a terminal.

        With `stdin` it offers `v5.channel.k8s.io` alone (Kubernetes 1.30 or later), without it `v4.channel.k8s.io`
        alone: on v5 a slow reader loses the end of stdout. `idle_seconds` bounds a silence in both directions, not the
        total time. Leaving the context closes the connection at once; the command may go on in the container.

        Sends the request once. Raises `ApiError` for an answer other than 101, `Unreachable` for none: the caller looks
        at the pod, and repeats by `senro.domain.transfer.retry_policy`. A command that cannot start is an `Ended`
        without a code.
        """


class Secrets(Protocol):
    """Secrets with the values of a step's secrets. They are never read: the identity has no right to `get` them."""

    async def create_secret(self, manifest: Manifest) -> str:
        """Send one create. Returns the uid of the Secret.

        After an error the caller decides as for `create_pod`, but cannot read the Secret: `AlreadyExists` means its own
        one only after a request that may have been stored. After a cancellation it deletes the Secret.
        """

    async def own_secret(self, namespace: str, name: str, *, owner: Pod) -> None:
        """Make the pod the owner of the Secret, so that the garbage collector deletes it after the pod.

        Sends one patch, which the caller may repeat. Raises `ProtocolError` if the answer does not show the owner.
        """

    async def delete_secret(self, namespace: str, name: str) -> None:
        """Delete the Secret; returns also if there is none. Repeats failures that may pass."""


class Events(Protocol):
    """Events about pods. They are best effort, and many identities may not list them."""

    async def list_events(self, namespace: str, *, uid: str) -> tuple[ClusterEvent, ...] | None:
        """Returns the Events about the pod `uid`, in no order; None if the identity may not list them (403).

        The caller does not call again after None. Repeats failures that may pass.
        """


class Leases(Protocol):
    """Leases of `coordination.k8s.io`. Only their resourceVersion keeps two writers apart.

    `senro.domain.claims.lease_protocol` decides what to write. Every write is sent once. After a cancellation
    (`CREATE_GRACE_SECONDS`), and after `Unreachable` with `sent`, the caller reads the Lease to learn whether the write
    took effect.
    """

    async def read_lease(self, namespace: str, name: str) -> Lease | None:
        """Returns the Lease as it is now, None if there is none of that name (404). Repeats failures that may pass."""

    async def create_lease(self, manifest: Manifest) -> Lease:
        """Send one create. On `AlreadyExists` the caller reads the Lease: it may be its own."""

    async def replace_lease(self, manifest: Manifest) -> Lease:
        """Send one update of the Lease with the manifest's uid and resourceVersion.

        Raises `Conflict` if the Lease has others now, `NotFound` if there is none; the caller reads it then.
        """

    async def delete_lease(self, namespace: str, name: str, *, uid: str, version: str) -> None:
        """Send one deletion of the Lease with this uid and resourceVersion; returns also if there is none.

        Raises `Conflict` if the Lease has others now: the caller reads it, and deletes it again if it is its own.
        """


class Cluster(Pods, Logs, Execs, Secrets, Events, Leases, Protocol):
    """All protocols above, over one connection."""

    @property
    def address(self) -> str:
        """Scheme, host and port of the apiserver."""

    async def version(self) -> str:
        """Returns the `gitVersion` of GET /version, such as `v1.36.2`.

        It is the first request of a run. Repeats failures that may pass, but only for 5 s if there is no answer at all.
        """
