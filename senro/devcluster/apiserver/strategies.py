"""What each resource asks of its objects: what is filled in, what is refused, and what may change later.

A strategy is three functions on documents. `prepare` gives the object as it would be stored when it is created, `check`
refuses what cannot be one, `change` refuses what an update may not do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.defaults import default_pod
from senro.devcluster.apiserver.quantities import parse_quantity
from senro.devcluster.apiserver.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    QUOTAS,
    ROLE_BINDINGS,
    ROLES,
)
from senro.devcluster.apiserver.status import (
    CLAIMS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    Cause,
    forbidden,
    invalid,
)
from senro.devcluster.apiserver.update_validation import checked_secret, refuse_immutable, refuse_pod_change
from senro.devcluster.apiserver.validation import (
    LABEL_RULE,
    check_config_map,
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
    return document


def _update_pod(current: Object, wanted: Object) -> Object:
    causes = check_metadata(wanted["metadata"])
    _raise(PODS, wanted, causes)
    # What a PUT leaves out is filled in as at the creation; what admission decided then stands.
    decided = {
        key: current["spec"][key] for key in ("priority", "preemptionPolicy", "nodeName") if key in current["spec"]
    }
    wanted = {**wanted, "spec": {**default_pod(wanted.get("spec") or {"containers": []}), **decided}}
    refuse_pod_change(current, wanted)
    return {**wanted, "status": current["status"]}


# --- Secrets, ConfigMaps, Leases -----------------------------------------------------------------------------------


def _update_secret(current: Object, wanted: Object) -> Object:
    checked = checked_secret(wanted)
    refuse_immutable(current, checked)
    return checked


def _create_config_map(document: Object) -> Object:
    check_config_map(CONFIG_MAPS, document)
    return document


def _update_config_map(current: Object, wanted: Object) -> Object:
    check_config_map(CONFIG_MAPS, wanted)
    if current.get("immutable"):
        fields = ("immutable", "data", "binaryData")
        words = "field is immutable when `immutable` is set"
        changed = [Cause.forbidden(field, words) for field in fields if wanted.get(field) != current.get(field)]
        _raise(CONFIG_MAPS, wanted, changed)
    return wanted


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


def _checked_role(resource: Resource) -> Callable[[Object], Object]:
    def check(document: Object) -> Object:
        causes = check_metadata(document["metadata"])
        for index, rule in enumerate(document.get("rules") or []):
            place = f"rules[{index}]"
            if not rule.get("verbs"):
                causes.append(Cause.required(f"{place}.verbs", "verbs must contain at least one value"))
            if rule.get("nonResourceURLs"):
                if resource == ROLES:
                    words = "namespaced rules cannot apply to non-resource URLs"
                    causes.append(Cause.invalid(f"{place}.nonResourceURLs", quoted(rule["nonResourceURLs"]), words))
                continue
            if not rule.get("apiGroups"):
                words = "resource rules must supply at least one api group"
                causes.append(Cause.required(f"{place}.apiGroups", words))
            if not rule.get("resources"):
                causes.append(Cause.required(f"{place}.resources", "resource rules must supply at least one resource"))
        _raise(resource, document, causes)
        return document

    return check


def _checked_binding(resource: Resource) -> Callable[[Object], Object]:
    def check(document: Object) -> Object:
        causes = check_metadata(document["metadata"])
        reference = document.get("roleRef") or {}
        kinds = ["ClusterRole"] if resource == CLUSTER_ROLE_BINDINGS else ["Role", "ClusterRole"]
        if reference.get("apiGroup", ROLES.group) != ROLES.group:
            causes.append(Cause.unsupported("roleRef.apiGroup", quoted(reference["apiGroup"]), [ROLES.group]))
        if reference.get("kind") not in kinds:
            causes.append(Cause.unsupported("roleRef.kind", quoted(reference.get("kind", "")), kinds))
        if not reference.get("name"):
            causes.append(Cause.required("roleRef.name"))
        subjects: list[Object] = []
        for index, subject in enumerate(document.get("subjects") or []):
            place, kind = f"subjects[{index}]", subject.get("kind", "")
            if kind not in {"ServiceAccount", "User", "Group"}:
                supported = ["ServiceAccount", "User", "Group"]
                causes.append(Cause.unsupported(f"{place}.kind", quoted(kind), supported))
            if not subject.get("name"):
                causes.append(Cause.required(f"{place}.name"))
            if kind == "ServiceAccount" and not subject.get("namespace"):
                causes.append(Cause.required(f"{place}.namespace"))
            group = {} if kind == "ServiceAccount" else {"apiGroup": ROLES.group}
            subjects.append({"kind": kind, **group, **subject})
        _raise(resource, document, causes)
        return {**document, "subjects": subjects, "roleRef": {"apiGroup": ROLES.group, **reference}}

    return check


def _update_binding(resource: Resource) -> Callable[[Object, Object], Object]:
    def update(current: Object, wanted: Object) -> Object:
        checked = _checked_binding(resource)(wanted)
        if checked["roleRef"] != current["roleRef"]:
            shown = "rbac.RoleRef{{APIGroup:{apiGroup}, Kind:{kind}, Name:{name}}}".format(
                **{key: quoted(value) for key, value in checked["roleRef"].items()}
            )
            _raise(resource, wanted, [Cause.invalid("roleRef", shown, "cannot change roleRef")])
        return checked

    return update


def _checked_quota(document: Object) -> Object:
    causes = check_metadata(document["metadata"])
    hard = (document.get("spec") or {}).get("hard") or {}
    decode_quantities(QUOTAS, hard)
    for name, amount in hard.items():
        if (parse_quantity(amount) or 0) < 0:
            words = "must be greater than or equal to 0"
            causes.append(Cause.invalid(f"spec.hard[{name}]", quoted(amount), words))
    _raise(QUOTAS, document, causes)
    return document


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


def _kept(check: Callable[[Object], Object]) -> Strategy:
    return Strategy(check, lambda _current, wanted: check(wanted))


_STRATEGIES = {
    PODS: Strategy(_create_pod, _update_pod),
    SECRETS: Strategy(checked_secret, _update_secret),
    CONFIG_MAPS: Strategy(_create_config_map, _update_config_map),
    LEASES: Strategy(_checked_lease, lambda _current, wanted: _checked_lease(wanted), unconditional=False),
    NAMESPACES: Strategy(_create_namespace, _update_namespace),
    CLAIMS: Strategy(_create_claim, _update_claim),
    ROLES: _kept(_checked_role(ROLES)),
    CLUSTER_ROLES: _kept(_checked_role(CLUSTER_ROLES)),
    ROLE_BINDINGS: Strategy(_checked_binding(ROLE_BINDINGS), _update_binding(ROLE_BINDINGS)),
    CLUSTER_ROLE_BINDINGS: Strategy(_checked_binding(CLUSTER_ROLE_BINDINGS), _update_binding(CLUSTER_ROLE_BINDINGS)),
    QUOTAS: _kept(_checked_quota),
    NODES: _kept(_checked_node),
    PRIORITY_CLASSES: _plain(PRIORITY_CLASSES),
    EVENTS: _plain(EVENTS),
}
