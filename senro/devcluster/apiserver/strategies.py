"""The rules of each resource: what is filled in and what is refused when an object is created or replaced.

A resource without rules here is stored as it is sent if its metadata is valid.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.quantities import parse_quantity
from senro.devcluster.apiserver.status import (
    CLAIMS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    Cause,
    forbidden,
    invalid,
)
from senro.devcluster.apiserver.validation import (
    LABEL_RULE,
    check_lease,
    check_metadata,
    check_pod,
    check_secret,
    decode_quantities,
    quoted,
)
from senro.devcluster.kubelet.claims import CLASS, PROTECTION

if TYPE_CHECKING:
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ACCESS_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]
_UNSERVED_FIELDS = ("affinity", "topologySpreadConstraints")


def prepare(resource: Resource, document: Object) -> Object:
    """Returns the object as it is to be stored; raises `Refused` if it breaks a rule of its resource."""
    if resource in _RULES:
        return _RULES[resource](document)
    _refuse(resource, document, check_metadata(document["metadata"]))
    return document


def replace_secret(current: Object, wanted: Object) -> Object:
    """Returns the Secret that replaces `current`; 422 for a change of immutable data or of the type.

    Metadata may change, also of an immutable Secret (recording secret-lifecycle).
    """
    prepared = _prepare_secret(wanted)
    words = "field is immutable when `immutable` is set"
    causes: list[Cause] = []
    if current.get("immutable"):
        if not prepared.get("immutable"):
            causes.append(Cause.forbidden("immutable", words))
        if prepared.get("data") != current.get("data"):
            causes.append(Cause.forbidden("data", words))
    if prepared["type"] != current["type"]:
        causes.append(Cause.invalid("type", quoted(prepared["type"]), "field is immutable"))
    _refuse(SECRETS, current, causes)
    return prepared


def _refuse(resource: Resource, document: Object, causes: list[Cause]) -> None:
    if causes:
        raise invalid(resource.kind, document["metadata"].get("name", ""), causes, resource.group)


def _prepare_pod(document: Object) -> Object:
    check_pod(PODS, document)
    name, spec = document["metadata"]["name"], document["spec"]
    if (spec.get("restartPolicy") or "Always") != "Never":
        raise forbidden(PODS, name, "the embedded cluster runs pods of restartPolicy Never only")
    for field in _UNSERVED_FIELDS:
        if spec.get(field):
            raise forbidden(PODS, name, f"the embedded cluster serves no spec.{field}")
    return document


def _prepare_secret(secret: Object) -> Object:
    """Returns the Secret with its stringData moved into data, and with a type."""
    check_secret(SECRETS, secret)
    data = dict(secret.get("data") or {})
    data |= {key: base64.b64encode(text.encode()).decode() for key, text in (secret.get("stringData") or {}).items()}
    kept = {field: value for field, value in secret.items() if field != "stringData"}
    return {**kept, **({"data": data} if data else {}), "type": secret.get("type", "Opaque")}


def _prepare_lease(document: Object) -> Object:
    check_lease(LEASES, document)
    return document


def _prepare_namespace(document: Object) -> Object:
    meta = document["metadata"]
    name = meta.get("name", "")
    causes = check_metadata(meta)
    if name and not causes and (len(name) > 63 or not _LABEL.fullmatch(name)):
        causes = [Cause.invalid("metadata.name", quoted(name), LABEL_RULE)]
    _refuse(NAMESPACES, document, causes)
    labels = {"kubernetes.io/metadata.name": name, **(meta.get("labels") or {})}
    return {
        **document,
        "metadata": {**meta, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _prepare_claim(document: Object) -> Object:
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
    _refuse(CLAIMS, document, causes)
    meta = document["metadata"]
    finalizers = meta.get("finalizers") or []
    return {
        **document,
        "metadata": {**meta, "finalizers": [*finalizers, *({PROTECTION} - set(finalizers))]},
        "spec": {"storageClassName": CLASS, "volumeMode": "Filesystem", **spec},
        "status": {"phase": "Pending"},
    }


_RULES = {
    PODS: _prepare_pod,
    SECRETS: _prepare_secret,
    LEASES: _prepare_lease,
    NAMESPACES: _prepare_namespace,
    CLAIMS: _prepare_claim,
}
