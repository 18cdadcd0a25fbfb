"""Reads and writes Leases."""

from __future__ import annotations

from contextlib import suppress

from senro.adapters.apiserver.answers import Reply, excerpt
from senro.adapters.apiserver.rest import Rest, delete_options, namespace_and_name
from senro.domain.claims.lease import Lease, decode_lease
from senro.domain.errors import NotFound, ProtocolError
from senro.domain.kube import api_paths
from senro.domain.kube.status import bounded
from senro.domain.requests.idempotency import RequestKind
from senro.ports.cluster import Manifest


class Leases:
    """Implements `senro.ports.cluster.Leases`."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def read_lease(self, namespace: str, name: str) -> Lease | None:
        """See the port."""
        operation = f"read lease {namespace}/{name}"
        try:
            reply = await self._rest.send(RequestKind.LEASE_READ, operation, api_paths.lease(namespace, name))
        except NotFound:
            return None
        return _lease(operation, reply)

    async def create_lease(self, manifest: Manifest) -> Lease:
        """See the port."""
        namespace, name = namespace_and_name(manifest)
        return await self._write(
            RequestKind.LEASE_CREATE, f"create lease {namespace}/{name}", api_paths.leases(namespace), manifest
        )

    async def replace_lease(self, manifest: Manifest) -> Lease:
        """See the port."""
        namespace, name = namespace_and_name(manifest)
        target = api_paths.lease(namespace, name, write=True)
        return await self._write(RequestKind.LEASE_REPLACE, f"update lease {namespace}/{name}", target, manifest)

    async def delete_lease(self, namespace: str, name: str, *, uid: str, version: str) -> None:
        """See the port."""
        operation = f"delete lease {namespace}/{name}"
        body = delete_options(preconditions={"uid": uid, "resourceVersion": version})
        with suppress(NotFound):
            await self._rest.send(RequestKind.LEASE_DELETE, operation, api_paths.lease(namespace, name), body=body)

    async def _write(self, request: RequestKind, operation: str, target: str, manifest: Manifest) -> Lease:
        lease = _lease(operation, await self._rest.store(request, operation, target, manifest))
        holder = manifest["spec"]["holderIdentity"]
        if lease.holder != holder:
            raise ProtocolError(operation, rule=f"the holder {holder}", got=bounded(lease.holder, 200) or "none")
        return lease


def _lease(operation: str, reply: Reply) -> Lease:
    try:
        lease = decode_lease(reply.body)
    except ValueError:
        lease = Lease()
    if not (lease.metadata.uid and lease.metadata.resource_version):
        # An answer of a proxy, decoded as a Lease, would look like one without a holder.
        raise ProtocolError(operation, rule="a Lease with uid and resourceVersion", got=excerpt(reply))
    return lease
