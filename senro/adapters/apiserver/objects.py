"""Reads and writes Pods, Secrets and Events."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from senro.adapters.apiserver.answers import Reply, excerpt
from senro.adapters.apiserver.rest import Rest, delete_options, namespace_and_name
from senro.domain.errors import Conflict, Forbidden, NotFound, ProtocolError, Unavailable
from senro.domain.kube import api_paths
from senro.domain.kube.event import ClusterEvent, decode_events
from senro.domain.kube.pod import Metadata, OwnerReference, Pod, decode_object, decode_pod
from senro.domain.kube.status import bounded
from senro.domain.requests.idempotency import RequestKind
from senro.ports.cluster import Manifest

FIRST_CONTACT_SECONDS = 5.0
"""How long the version is requested while there is no answer. The user waits for it, and the address may be wrong."""

_T = TypeVar("_T")


class _Object(msgspec.Struct, frozen=True):
    """The metadata of any object of the API."""

    kind: str = ""
    metadata: Metadata = Metadata()


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to GET /version."""

    git_version: str = ""


class Objects:
    """Implements `senro.ports.cluster.Pods`, `Secrets` and `Events`."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def version(self) -> str:
        """See the port."""
        operation = "read the version"
        reply = await self._rest.send(
            RequestKind.VERSION, operation, api_paths.VERSION, unreachable_seconds=FIRST_CONTACT_SECONDS
        )
        version = _decode(operation, reply, _Version)
        if not version.git_version:
            raise ProtocolError(operation, rule="a gitVersion", got=excerpt(reply))
        return bounded(version.git_version, 100)

    async def create_pod(self, manifest: Manifest) -> Pod:
        """See the port."""
        namespace, name = namespace_and_name(manifest)
        operation = f"create pod {namespace}/{name}"
        reply = await self._rest.store(RequestKind.POD_CREATE, operation, api_paths.pods(namespace), manifest)
        return _pod(operation, reply)

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """See the port."""
        operation = f"read pod {namespace}/{name}"
        try:
            reply = await self._rest.send(RequestKind.POD_READ, operation, api_paths.pod(namespace, name))
        except NotFound as error:
            _check_absence(error, name)
            return None
        return _pod(operation, reply)

    async def delete_pod(self, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        """See the port."""
        operation = f"delete pod {namespace}/{name}"
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        body, target = delete_options(preconditions={"uid": uid}, **grace), api_paths.pod(namespace, name)
        try:
            await self._rest.send(RequestKind.POD_DELETE, operation, target, body=body)
        except NotFound as error:
            _check_absence(error, name)
            return True
        except Conflict:
            # Only the precondition can conflict, but the other uid is the proof, and not the 409.
            found = await self.read_pod(namespace, name)
            if found is None or found.uid != uid:
                return True
            raise
        # Also after a grace of 0, which removes the object at once: a finalizer may keep it.
        return False

    async def create_secret(self, manifest: Manifest) -> str:
        """See the port."""
        namespace, name = namespace_and_name(manifest)
        operation = f"create secret {namespace}/{name}"
        reply = await self._rest.store(RequestKind.SECRET_CREATE, operation, api_paths.secrets(namespace), manifest)
        uid = _decode(operation, reply, _Object).metadata.uid
        if not uid:
            # The answer may contain the Secret's data, so the message does not quote it.
            raise ProtocolError(operation, rule="the Secret that was created", got="an answer without a uid")
        return uid

    async def own_secret(self, namespace: str, name: str, *, owner: Pod) -> None:
        """See the port."""
        operation = f"give secret {namespace}/{name} to pod {owner.name}"
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}
        patch = {"metadata": {"ownerReferences": [reference]}}
        reply = await self._rest.send(
            RequestKind.SECRET_OWN,
            operation,
            api_paths.secret(namespace, name, write=True),
            body=msgspec.json.encode(patch),
            content_type="application/merge-patch+json",
        )
        owners = _decode(operation, reply, _Object).metadata.owner_references
        if OwnerReference(kind="Pod", name=owner.name, uid=owner.uid) not in owners:
            got = ", ".join(f"{one.kind} {one.name} {one.uid}" for one in owners) or "none"
            raise ProtocolError(operation, rule=f"the owner {owner.name} {owner.uid}", got=bounded(got, 500))

    async def delete_secret(self, namespace: str, name: str) -> None:
        """See the port."""
        operation = f"delete secret {namespace}/{name}"
        with suppress(NotFound):
            await self._rest.send(RequestKind.SECRET_DELETE, operation, api_paths.secret(namespace, name))

    async def list_events(self, namespace: str, *, uid: str) -> tuple[ClusterEvent, ...] | None:
        """See the port."""
        operation = f"list the events about a pod in {namespace}"
        try:
            reply = await self._rest.send(RequestKind.EVENTS_LIST, operation, api_paths.events(namespace, uid))
        except Forbidden:
            return None
        try:
            return decode_events(reply.body)
        except ValueError:
            raise ProtocolError(operation, rule="an EventList as JSON", got=excerpt(reply)) from None


def _check_absence(error: NotFound, name: str) -> None:
    """Raise `Unavailable` unless the 404 is about the object of this name."""
    if error.response.name != name:
        raise Unavailable(error.operation, error.response) from error


def _pod(operation: str, reply: Reply) -> Pod:
    try:
        pod = decode_pod(reply.body)
    except ValueError:
        raise ProtocolError(operation, rule="a Pod as JSON", got=excerpt(reply)) from None
    if not pod.uid:
        # An answer of a proxy, decoded as a Pod, would look like one that never starts.
        raise ProtocolError(operation, rule="a Pod with a uid", got=excerpt(reply))
    return pod


def _decode(operation: str, reply: Reply, shape: type[_T]) -> _T:
    try:
        return decode_object(reply.body, shape)
    except ValueError:
        raise ProtocolError(operation, rule="an object as JSON", got="an answer that cannot be decoded") from None
