"""What a caller may ask about itself: access, rules, and who it is (recording connection)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.access import Asked
from senro.devcluster.apiserver.rbac import PATH_RULES
from senro.devcluster.apiserver.resources import RULES_REVIEWS
from senro.devcluster.apiserver.status import ACCESS_REVIEWS, Cause, invalid

if TYPE_CHECKING:
    from senro.devcluster.apiserver.access import Access, Identity
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_EVERY_RESOURCE = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_EVERY_PATH = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def review(resource: Resource, asked: Object, access: Access, identity: Identity) -> Object:
    """The answered review."""
    spec: Object = asked.get("spec") or {}
    if resource == ACCESS_REVIEWS:
        status = _access(spec, access, identity)
    elif resource == RULES_REVIEWS:
        status, spec = _rules(str(spec.get("namespace") or ""), access, identity), {}
    else:
        status = {"userInfo": {"username": identity.user, "groups": list(identity.groups)}}
        return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "status": status}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {},
        "spec": spec,
        "status": status,
    }


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


def _rules(namespace: str, access: Access, identity: Identity) -> Object:
    if identity.may_everything:
        return {"resourceRules": [_EVERY_RESOURCE], "nonResourceRules": [_EVERY_PATH], "incomplete": False}
    return {
        "resourceRules": [grant.rule.document() for grant in access.grants(identity, namespace)],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": list(paths)} for paths in PATH_RULES],
        "incomplete": False,
    }
