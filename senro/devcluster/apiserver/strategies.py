"""What each resource asks of its objects: what is filled in, what is refused, and what may change later.

A resource that is not named here stores what it is given, if its metadata is valid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.quantities import parse_quantity
from senro.devcluster.apiserver.status import (
    CLAIMS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Cause,
    forbidden,
    invalid,
)
from senro.devcluster.apiserver.update_validation import checked_secret, refuse_immutable
from senro.devcluster.apiserver.validation import (
    LABEL_RULE,
    check_lease,
    check_metadata,
    check_pod,
    decode_quantities,
    quoted,
)
from senro.devcluster.kubelet.claims import CLASS, PROTECTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
_ACCESS_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """How objects of one resource come to be and change; each function may refuse, and gives what is stored."""

    create: Callable[[Object], Object]
    update: Callable[[Object, Object], Object]
    unconditional: bool = True
    """Whether a PUT may come without a resourceVersion."""


def strategy_of(resource: Resource) -> Strategy:
    """The strategy; the plain one where a resource has no rules of its own."""
    return _STRATEGIES.get(resource, _plain(resource))


def _raise(resource: Resource, document: Object, causes: list[Cause]) -> None:
    if causes:
        raise invalid(resource.kind, document["metadata"].get("name", ""), causes, resource.group)


def _plain(resource: Resource) -> Strategy:
    def create(document: Object) -> Object:
        _raise(resource, document, check_metadata(document["metadata"]))
        return document

    return Strategy(create, lambda _current, wanted: create(wanted))


# --- pods ----------------------------------------------------------------------------------------------------------


def _create_pod(document: Object) -> Object:
    check_pod(PODS, document)
    if (document["spec"].get("restartPolicy") or "Always") != "Never":
        # Said plainly, rather than run once and called something else.
        words = "the embedded cluster runs pods of restartPolicy Never only"
        raise forbidden(PODS, document["metadata"]["name"], words)
    for field in ("affinity", "topologySpreadConstraints"):
        if document["spec"].get(field):
            raise forbidden(PODS, document["metadata"]["name"], f"the embedded cluster serves no spec.{field}")
    return document


def _update_pod(current: Object, wanted: Object) -> Object:
    causes = check_metadata(wanted["metadata"])
    if wanted.get("spec") != current["spec"]:
        causes.append(Cause.forbidden("spec", "the embedded cluster changes no pod's spec"))
    _raise(PODS, wanted, causes)
    return {**wanted, "status": current["status"]}


# --- Secrets, Leases -----------------------------------------------------------------------------------


def _update_secret(current: Object, wanted: Object) -> Object:
    checked = checked_secret(wanted)
    refuse_immutable(current, checked)
    return checked


def _checked_lease(document: Object) -> Object:
    check_lease(LEASES, document)
    return document


# --- what is the cluster's own -------------------------------------------------------------------------------------


def _create_namespace(document: Object) -> Object:
    meta = document["metadata"]
    name = meta.get("name", "")
    causes = check_metadata(meta)
    if name and not causes and (len(name) > 63 or not _LABEL.fullmatch(name)):
        causes = [Cause.invalid("metadata.name", quoted(name), LABEL_RULE)]
    _raise(NAMESPACES, document, causes)
    labels = {"kubernetes.io/metadata.name": name, **(meta.get("labels") or {})}
    return {
        **document,
        "metadata": {**meta, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _update_namespace(current: Object, wanted: Object) -> Object:
    _raise(NAMESPACES, wanted, check_metadata(wanted["metadata"]))
    return {**wanted, "spec": current["spec"], "status": current["status"]}


def _create_claim(document: Object) -> Object:
    spec = document.get("spec") or {}
    for amounts in (spec.get("resources") or {}).values():
        decode_quantities(CLAIMS, amounts)
    causes = check_metadata(document["metadata"])
    modes = spec.get("accessModes") or []
    if not modes:
        causes.append(Cause.required("spec.accessModes", "at least 1 access mode is required"))
    causes += [
        Cause.unsupported("spec.accessModes", quoted(mode), _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if amount is None:
        causes.append(Cause.required("spec.resources[storage]"))
    elif (parse_quantity(amount) or 0) <= 0:
        causes.append(Cause.invalid("spec.resources[storage]", quoted(amount), "must be greater than zero"))
    _raise(CLAIMS, document, causes)
    meta = document["metadata"]
    finalizers = meta.get("finalizers") or []
    given = {key: value for key, value in spec.items() if value is not None}
    return {
        **document,
        "metadata": {**meta, "finalizers": [*finalizers, *({PROTECTION} - set(finalizers))]},
        "spec": {"storageClassName": CLASS, "volumeMode": "Filesystem", **given},
        "status": {"phase": "Pending"},
    }


def _update_claim(current: Object, wanted: Object) -> Object:
    _raise(CLAIMS, wanted, check_metadata(wanted["metadata"]))
    if wanted.get("spec") != current.get("spec"):
        words = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        _raise(CLAIMS, wanted, [Cause.forbidden("spec", words)])
    return {**wanted, "status": current.get("status")}


def _checked_node(document: Object) -> Object:
    causes = check_metadata(document["metadata"])
    for index, taint in enumerate((document.get("spec") or {}).get("taints") or []):
        place, effect = f"spec.taints[{index}]", taint.get("effect", "")
        if not taint.get("key"):
            causes.append(Cause.required(f"{place}.key"))
        if effect not in _EFFECTS:
            causes.append(Cause.unsupported(f"{place}.effect", quoted(effect), _EFFECTS))
    _raise(NODES, document, causes)
    return document


_STRATEGIES = {
    PODS: Strategy(_create_pod, _update_pod),
    SECRETS: Strategy(checked_secret, _update_secret),
    LEASES: Strategy(_checked_lease, lambda _current, wanted: _checked_lease(wanted), unconditional=False),
    NAMESPACES: Strategy(_create_namespace, _update_namespace),
    CLAIMS: Strategy(_create_claim, _update_claim),
    NODES: Strategy(_checked_node, lambda _current, wanted: _checked_node(wanted)),
}
