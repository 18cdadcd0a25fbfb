"""The fields that objects may have, so that `fieldValidation=Strict` can refuse a misspelt one.

A schema is a mapping of field names to what stands there: another mapping, a list with one schema, or a word for a
scalar; a map, whose keys are free, has `*` in the place of its fields. `ANY` is not looked into. Only what senro and
its users set, and what their neighbours in a manifest usually are, is described; the whole of PodSpec is named, so that
a valid field is never called unknown.
"""

from __future__ import annotations

from typing import Any

from senro.devcluster.apiserver.integers import GREATEST, LEAST

ANY = "any"
TEXT = "string"
NUMBER = "int"
BOOLEAN = "bool"
QUANTITY = "quantity"

Schema = Any
"""A mapping, a list of one schema, or one of the words above; recursive, which a type alias cannot say here."""

_REFERRED = {"name": TEXT, "optional": BOOLEAN}
_KEY_SELECTOR = {"name": TEXT, "key": TEXT, "optional": BOOLEAN}
_SECURITY_COMMON: dict[str, Schema] = {
    "seLinuxOptions": ANY,
    "windowsOptions": ANY,
    "runAsUser": NUMBER,
    "runAsGroup": NUMBER,
    "runAsNonRoot": BOOLEAN,
    "seccompProfile": {"type": TEXT, "localhostProfile": TEXT},
    "appArmorProfile": {"type": TEXT, "localhostProfile": TEXT},
}

OBJECT_META: dict[str, Schema] = {
    "name": TEXT,
    "generateName": TEXT,
    "namespace": TEXT,
    "selfLink": TEXT,
    "uid": TEXT,
    "resourceVersion": TEXT,
    "generation": NUMBER,
    "creationTimestamp": ANY,
    "deletionTimestamp": ANY,
    "deletionGracePeriodSeconds": NUMBER,
    "labels": {"*": TEXT},
    "annotations": {"*": TEXT},
    "ownerReferences": [
        {
            "apiVersion": TEXT,
            "kind": TEXT,
            "name": TEXT,
            "uid": TEXT,
            "controller": BOOLEAN,
            "blockOwnerDeletion": BOOLEAN,
        }
    ],
    "finalizers": [TEXT],
    "managedFields": ANY,
}

CONTAINER: dict[str, Schema] = {
    "name": TEXT,
    "image": TEXT,
    "command": [TEXT],
    "args": [TEXT],
    "workingDir": TEXT,
    "ports": [{"name": TEXT, "hostPort": NUMBER, "containerPort": NUMBER, "protocol": TEXT, "hostIP": TEXT}],
    "envFrom": [{"prefix": TEXT, "configMapRef": _REFERRED, "secretRef": _REFERRED}],
    "env": [
        {
            "name": TEXT,
            "value": TEXT,
            "valueFrom": {
                "fieldRef": {"apiVersion": TEXT, "fieldPath": TEXT},
                "resourceFieldRef": ANY,
                "configMapKeyRef": _KEY_SELECTOR,
                "secretKeyRef": _KEY_SELECTOR,
                "fileKeyRef": ANY,
            },
        }
    ],
    "resources": {"limits": {"*": QUANTITY}, "requests": {"*": QUANTITY}, "claims": ANY},
    "resizePolicy": ANY,
    "restartPolicy": TEXT,
    "restartPolicyRules": ANY,
    "volumeMounts": [
        {
            "name": TEXT,
            "readOnly": BOOLEAN,
            "recursiveReadOnly": TEXT,
            "mountPath": TEXT,
            "subPath": TEXT,
            "subPathExpr": TEXT,
            "mountPropagation": TEXT,
        }
    ],
    "volumeDevices": ANY,
    "livenessProbe": ANY,
    "readinessProbe": ANY,
    "startupProbe": ANY,
    "lifecycle": ANY,
    "terminationMessagePath": TEXT,
    "terminationMessagePolicy": TEXT,
    "imagePullPolicy": TEXT,
    "securityContext": {
        **_SECURITY_COMMON,
        "capabilities": {"add": [TEXT], "drop": [TEXT]},
        "privileged": BOOLEAN,
        "readOnlyRootFilesystem": BOOLEAN,
        "allowPrivilegeEscalation": BOOLEAN,
        "procMount": TEXT,
    },
    "stdin": BOOLEAN,
    "stdinOnce": BOOLEAN,
    "tty": BOOLEAN,
}

_VOLUME: dict[str, Schema] = {
    "name": TEXT,
    "emptyDir": {"medium": TEXT, "sizeLimit": ANY},
    "secret": {
        "secretName": TEXT,
        "items": [{"key": TEXT, "path": TEXT, "mode": NUMBER}],
        "defaultMode": NUMBER,
        "optional": BOOLEAN,
    },
    "persistentVolumeClaim": {"claimName": TEXT, "readOnly": BOOLEAN},
    "configMap": {
        "name": TEXT,
        "items": [{"key": TEXT, "path": TEXT, "mode": NUMBER}],
        "defaultMode": NUMBER,
        "optional": BOOLEAN,
    },
    "projected": ANY,
    "downwardAPI": ANY,
    "hostPath": {"path": TEXT, "type": TEXT},
    "ephemeral": ANY,
    "csi": ANY,
    "nfs": ANY,
    "image": ANY,
}

_POD_SPEC: dict[str, Schema] = {
    "containers": [CONTAINER],
    "initContainers": [CONTAINER],
    "ephemeralContainers": [{**CONTAINER, "targetContainerName": TEXT}],
    "hostAliases": [{"ip": TEXT, "hostnames": [TEXT]}],
    "volumes": [_VOLUME],
    "securityContext": {
        **_SECURITY_COMMON,
        "supplementalGroups": [NUMBER],
        "supplementalGroupsPolicy": TEXT,
        "fsGroup": NUMBER,
        "fsGroupChangePolicy": TEXT,
        "sysctls": ANY,
        "seLinuxChangePolicy": TEXT,
    },
    "tolerations": [{"key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT, "tolerationSeconds": NUMBER}],
    "nodeSelector": {"*": TEXT},
    "imagePullSecrets": [{"name": TEXT}],
    "activeDeadlineSeconds": NUMBER,
    "terminationGracePeriodSeconds": NUMBER,
    "priority": NUMBER,
    **dict.fromkeys(
        ("automountServiceAccountToken", "enableServiceLinks", "hostIPC", "hostNetwork", "hostPID", "hostUsers"),
        BOOLEAN,
    ),
    **dict.fromkeys(("setHostnameAsFQDN", "shareProcessNamespace"), BOOLEAN),
    **dict.fromkeys(
        ("restartPolicy", "dnsPolicy", "serviceAccountName", "serviceAccount", "nodeName", "hostname"), TEXT
    ),
    **dict.fromkeys(("subdomain", "schedulerName", "priorityClassName", "runtimeClassName", "preemptionPolicy"), TEXT),
    "hostnameOverride": TEXT,
    **dict.fromkeys(("affinity", "dnsConfig", "os", "overhead", "readinessGates", "resourceClaims", "resources"), ANY),
    **dict.fromkeys(("schedulingGates", "schedulingGroup", "topologySpreadConstraints", "workloadRef"), ANY),
}

_TYPE_META = {"kind": TEXT, "apiVersion": TEXT}

POD: dict[str, Schema] = {**_TYPE_META, "metadata": OBJECT_META, "spec": _POD_SPEC, "status": ANY}
SECRET: dict[str, Schema] = {
    **_TYPE_META,
    "metadata": OBJECT_META,
    "data": {"*": TEXT},
    "stringData": {"*": TEXT},
    "type": TEXT,
    "immutable": BOOLEAN,
}
LEASE: dict[str, Schema] = {
    **_TYPE_META,
    "metadata": OBJECT_META,
    "spec": {
        "holderIdentity": TEXT,
        "leaseDurationSeconds": NUMBER,
        "acquireTime": TEXT,
        "renewTime": TEXT,
        "leaseTransitions": NUMBER,
        "strategy": TEXT,
        "preferredHolder": TEXT,
    },
}
ACCESS_REVIEW: dict[str, Schema] = {**_TYPE_META, "metadata": OBJECT_META, "spec": ANY, "status": ANY}
_DOCUMENT: dict[str, Schema] = {**_TYPE_META, "metadata": OBJECT_META}
_REFERENCE: dict[str, Schema] = {"apiGroup": TEXT, "kind": TEXT, "name": TEXT}
_TAINT: dict[str, Schema] = {"key": TEXT, "value": TEXT, "effect": TEXT, "timeAdded": ANY}
_RULES: Schema = [
    {"verbs": [TEXT], "apiGroups": [TEXT], "resources": [TEXT], "resourceNames": [TEXT], "nonResourceURLs": [TEXT]}
]
_BINDING: dict[str, Schema] = {
    **_DOCUMENT,
    "subjects": [{**_REFERENCE, "namespace": TEXT}],
    "roleRef": _REFERENCE,
}
CLAIM: dict[str, Schema] = {
    **_DOCUMENT,
    "spec": {
        "accessModes": [TEXT],
        "resources": {"limits": {"*": QUANTITY}, "requests": {"*": QUANTITY}},
        "storageClassName": TEXT,
        "volumeName": TEXT,
        "volumeMode": TEXT,
        **dict.fromkeys(("selector", "dataSource", "dataSourceRef"), ANY),
        "volumeAttributesClassName": TEXT,
    },
    "status": ANY,
}
SCHEMAS: dict[str, dict[str, Schema]] = {
    "Pod": POD,
    "Secret": SECRET,
    "Lease": LEASE,
    "PersistentVolumeClaim": CLAIM,
    "ConfigMap": {**_DOCUMENT, "data": {"*": TEXT}, "binaryData": {"*": TEXT}, "immutable": BOOLEAN},
    "ServiceAccount": {
        **_DOCUMENT,
        "secrets": ANY,
        "imagePullSecrets": [{"name": TEXT}],
        "automountServiceAccountToken": BOOLEAN,
    },
    "Namespace": {**_DOCUMENT, "spec": {"finalizers": [TEXT]}, "status": ANY},
    "Node": {
        **_DOCUMENT,
        "spec": {"unschedulable": BOOLEAN, "taints": [_TAINT], "podCIDR": TEXT, "podCIDRs": [TEXT], "providerID": TEXT},
        "status": ANY,
    },
    "Event": {
        **_DOCUMENT,
        **dict.fromkeys(("involvedObject", "related", "source", "series", "eventTime"), ANY),
        **dict.fromkeys(("reason", "message", "type", "action", "reportingComponent", "reportingInstance"), TEXT),
        **dict.fromkeys(("firstTimestamp", "lastTimestamp"), ANY),
        "count": NUMBER,
    },
    "ResourceQuota": {
        **_DOCUMENT,
        "spec": {"hard": {"*": QUANTITY}, "scopes": ANY, "scopeSelector": ANY},
        "status": ANY,
    },
    "Role": {**_DOCUMENT, "rules": _RULES},
    "ClusterRole": {**_DOCUMENT, "rules": _RULES, "aggregationRule": ANY},
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "PodDisruptionBudget": {
        **_DOCUMENT,
        "spec": {"minAvailable": ANY, "maxUnavailable": ANY, "selector": ANY, "unhealthyPodEvictionPolicy": TEXT},
        "status": ANY,
    },
    "PriorityClass": {
        **_DOCUMENT,
        "value": NUMBER,
        "globalDefault": BOOLEAN,
        "description": TEXT,
        "preemptionPolicy": TEXT,
    },
    **dict.fromkeys(("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview"), ACCESS_REVIEW),
}
"""By kind: every kind that can be sent."""

DELETE_OPTIONS: dict[str, Schema] = {
    **_TYPE_META,
    "gracePeriodSeconds": NUMBER,
    "preconditions": {"uid": TEXT, "resourceVersion": TEXT},
    "orphanDependents": BOOLEAN,
    "propagationPolicy": TEXT,
    "dryRun": [TEXT],
    "ignoreStoreReadErrorWithClusterBreakingPotential": BOOLEAN,
}

_UNTYPED = (ANY, QUANTITY)
_GO_TYPES = {TEXT: (str,), NUMBER: (int,), BOOLEAN: (bool,)}


def unknown_fields(document: Any, schema: Schema, path: str = "") -> list[str]:
    """The paths of fields that the schema does not know, as the apiserver writes them: `spec.containers[0].x`."""
    if isinstance(schema, list) and isinstance(document, list):
        return [
            found
            for index, item in enumerate(document)
            for found in unknown_fields(item, schema[0], f"{path}[{index}]")
        ]
    if not isinstance(schema, dict) or not isinstance(document, dict):
        return []
    unknown: list[str] = []
    for field, value in document.items():
        place = f"{path}.{field}" if path else field
        below = schema.get(field, schema.get("*"))
        if below is None:
            unknown.append(place)
        else:
            unknown += unknown_fields(value, below, place)
    return unknown


def wrong_type(document: Any, schema: Schema, path: str = "") -> str:
    """What is wrong with the first value whose JSON type does not fit, in the words of Go's decoder; else ""."""
    if document is None or schema in _UNTYPED:
        return ""
    if isinstance(schema, list):
        if not isinstance(document, list):
            return _mismatch(document, path, "[]")
        return next(
            (found for item in document if (found := wrong_type(item, schema[0], path))),
            "",
        )
    if isinstance(schema, dict):
        if not isinstance(document, dict):
            return _mismatch(document, path, "struct")
        below = ((field, schema.get(field, schema.get("*", ANY)), value) for field, value in document.items())
        return next(
            (
                found
                for field, expected, value in below
                if (found := wrong_type(value, expected, f"{path}.{field}" if path else field))
            ),
            "",
        )
    fits = isinstance(document, _GO_TYPES[schema]) and (schema == BOOLEAN or not isinstance(document, bool))
    if schema == NUMBER and fits:
        fits = LEAST <= document <= GREATEST
    return "" if fits else _mismatch(document, path, schema)


def _mismatch(document: Any, path: str, expected: str) -> str:
    names = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
    return f"json: cannot unmarshal {names[type(document)]} into Go struct field {path} of type {expected}"


def without_nulls(document: Any, schema: Schema) -> Any:
    """The document as Go decodes its nulls: a field is absent, what a map or a list holds has its type's zero value."""
    if isinstance(schema, list) and isinstance(document, list):
        return [_zero(schema[0]) if item is None else without_nulls(item, schema[0]) for item in document]
    if not isinstance(schema, dict) or not isinstance(document, dict):
        return document
    if "*" in schema:
        held = schema["*"]
        return {key: _zero(held) if value is None else without_nulls(value, held) for key, value in document.items()}
    return {
        field: without_nulls(value, schema.get(field, ANY)) for field, value in document.items() if value is not None
    }


def _zero(schema: Schema) -> Any:
    if isinstance(schema, dict | list):
        return type(schema)()
    return {TEXT: "", NUMBER: 0, BOOLEAN: False, QUANTITY: "0"}.get(schema)
