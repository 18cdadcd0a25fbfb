"""SelfSubjectAccessReviews: what a caller may do (recording connection)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.access import Asked
from senro.devcluster.apiserver.status import ACCESS_REVIEWS, Cause, invalid

if TYPE_CHECKING:
    from senro.devcluster.apiserver.access import Access, Identity
    from senro.devcluster.objects import Object


def review(asked: Object, access: Access, identity: Identity) -> Object:
    """Returns the review with its status; 422 if it asks for anything but a resource."""
    spec: Object = asked.get("spec") or {}
    wanted: Object | None = spec.get("resourceAttributes")
    if wanted is None:
        words = "the embedded cluster reviews access to resources only"
        raise invalid(ACCESS_REVIEWS.kind, "", [Cause.required("spec.resourceAttributes", words)], ACCESS_REVIEWS.group)
    resource = "/".join(filter(None, [wanted.get("resource", ""), wanted.get("subresource", "")]))
    asked_for = Asked(
        wanted.get("verb", ""), wanted.get("group", ""), resource, wanted.get("namespace", ""), wanted.get("name", "")
    )
    reason = access.why(identity, asked_for)
    status: Object = {"allowed": reason is not None, **({"reason": reason} if reason else {})}
    meta = {"kind": ACCESS_REVIEWS.kind, "apiVersion": ACCESS_REVIEWS.api_version, "metadata": {}}
    return {**meta, "spec": spec, "status": status}
