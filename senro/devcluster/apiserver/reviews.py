"""SelfSubjectAccessReviews: what a caller may do (recording connection)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.access import Asked
from senro.devcluster.apiserver.status import ACCESS_REVIEWS, Cause, invalid

if TYPE_CHECKING:
    from senro.devcluster.apiserver.access import Access, Identity
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object


def review(resource: Resource, asked: Object, access: Access, identity: Identity) -> Object:
    """The answered review."""
    spec: Object = asked.get("spec") or {}
    status = _access(spec, access, identity)
    meta = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    return {**meta, "spec": spec, "status": status}


def _access(spec: Object, access: Access, identity: Identity) -> Object:
    asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (asked is None) == (path is None):
        cause = Cause.invalid("spec.resourceAttributes", "null", "exactly one of nonResourceAttributes or "
                              "resourceAttributes must be specified")  # fmt: skip
        raise invalid(ACCESS_REVIEWS.kind, "", [cause], ACCESS_REVIEWS.group)
    if path is not None:
        return {"allowed": access.may_path(identity, path.get("verb", ""), path.get("path", ""))}
    wanted: Object = asked or {}
    resource = wanted.get("resource", "")
    if wanted.get("subresource"):
        resource += f"/{wanted['subresource']}"
    asked_for = Asked(
        wanted.get("verb", ""), wanted.get("group", ""), resource, wanted.get("namespace", ""), wanted.get("name", "")
    )
    reason = access.why(identity, asked_for)
    status: Object = {"allowed": reason is not None}
    return {**status, "reason": reason} if reason else status
