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


def _fields(schema: Schema, names: str) -> dict[str, Schema]:
    """Fields of one schema, named in one string."""
    return dict.fromkeys(names.split(), schema)


_REFERRED = {"name": TEXT, "optional": BOOLEAN}
_KEY_SELECTOR = {**_REFERRED, "key": TEXT}
_PROFILE = _fields(TEXT, "type localhostProfile")
_SECURITY_COMMON: dict[str, Schema] = {
    **_fields(ANY, "seLinuxOptions windowsOptions"),
    **_fields(NUMBER, "runAsUser runAsGroup"),
    "runAsNonRoot": BOOLEAN,
    **_fields(_PROFILE, "seccompProfile appArmorProfile"),
}
_AMOUNTS = {"limits": {"*": QUANTITY}, "requests": {"*": QUANTITY}}

OBJECT_META: dict[str, Schema] = {
    **_fields(TEXT, "name generateName namespace selfLink uid resourceVersion"),
    **_fields(NUMBER, "generation deletionGracePeriodSeconds"),
    **_fields(ANY, "creationTimestamp deletionTimestamp managedFields"),
    **_fields({"*": TEXT}, "labels annotations"),
    "ownerReferences": [
        {**_fields(TEXT, "apiVersion kind name uid"), **_fields(BOOLEAN, "controller blockOwnerDeletion")}
    ],
    "finalizers": [TEXT],
}

CONTAINER: dict[str, Schema] = {
    **_fields(TEXT, "name image workingDir restartPolicy terminationMessagePath terminationMessagePolicy"),
    "imagePullPolicy": TEXT,
    **_fields([TEXT], "command args"),
    **_fields(BOOLEAN, "stdin stdinOnce tty"),
    **_fields(ANY, "resizePolicy restartPolicyRules volumeDevices livenessProbe readinessProbe startupProbe lifecycle"),
    "ports": [{**_fields(TEXT, "name protocol hostIP"), **_fields(NUMBER, "hostPort containerPort")}],
    "envFrom": [{"prefix": TEXT, "configMapRef": _REFERRED, "secretRef": _REFERRED}],
    "env": [
        {
            **_fields(TEXT, "name value"),
            "valueFrom": {
                "fieldRef": _fields(TEXT, "apiVersion fieldPath"),
                **_fields(_KEY_SELECTOR, "configMapKeyRef secretKeyRef"),
                **_fields(ANY, "resourceFieldRef fileKeyRef"),
            },
        }
    ],
    "resources": {**_AMOUNTS, "claims": ANY},
    "volumeMounts": [
        {
            **_fields(TEXT, "name recursiveReadOnly mountPath subPath subPathExpr mountPropagation"),
            "readOnly": BOOLEAN,
        }
    ],
    "securityContext": {
        **_SECURITY_COMMON,
        "capabilities": _fields([TEXT], "add drop"),
        **_fields(BOOLEAN, "privileged readOnlyRootFilesystem allowPrivilegeEscalation"),
        "procMount": TEXT,
    },
}

_FILES = {"items": [{"key": TEXT, "path": TEXT, "mode": NUMBER}], "defaultMode": NUMBER, "optional": BOOLEAN}
_VOLUME: dict[str, Schema] = {
    "name": TEXT,
    "emptyDir": {"medium": TEXT, "sizeLimit": ANY},
    "secret": {**_FILES, "secretName": TEXT},
    "configMap": {**_FILES, "name": TEXT},
    "persistentVolumeClaim": {"claimName": TEXT, "readOnly": BOOLEAN},
    **_fields(ANY, "projected downwardAPI hostPath ephemeral csi nfs image"),
}

_POD_SPEC: dict[str, Schema] = {
    **_fields([CONTAINER], "containers initContainers"),
    "ephemeralContainers": [{**CONTAINER, "targetContainerName": TEXT}],
    "hostAliases": [{"ip": TEXT, "hostnames": [TEXT]}],
    "volumes": [_VOLUME],
    "securityContext": {
        **_SECURITY_COMMON,
        "supplementalGroups": [NUMBER],
        **_fields(TEXT, "supplementalGroupsPolicy fsGroupChangePolicy seLinuxChangePolicy"),
        "fsGroup": NUMBER,
        "sysctls": ANY,
    },
    "tolerations": [{**_fields(TEXT, "key operator value effect"), "tolerationSeconds": NUMBER}],
    "nodeSelector": {"*": TEXT},
    "imagePullSecrets": [{"name": TEXT}],
    **_fields(NUMBER, "activeDeadlineSeconds terminationGracePeriodSeconds priority"),
    **_fields(BOOLEAN, "automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers"),
    **_fields(BOOLEAN, "setHostnameAsFQDN shareProcessNamespace"),
    **_fields(TEXT, "restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostname hostnameOverride"),
    **_fields(TEXT, "subdomain schedulerName priorityClassName runtimeClassName preemptionPolicy"),
    **_fields(ANY, "affinity dnsConfig os overhead readinessGates resourceClaims resources schedulingGates"),
    **_fields(ANY, "schedulingGroup topologySpreadConstraints workloadRef"),
}

_DOCUMENT: dict[str, Schema] = {**_fields(TEXT, "kind apiVersion"), "metadata": OBJECT_META}
_REFERENCE = _fields(TEXT, "apiGroup kind name")
_RULES: Schema = [_fields([TEXT], "verbs apiGroups resources resourceNames nonResourceURLs")]
_ROLE: dict[str, Schema] = {**_DOCUMENT, "rules": _RULES}
_BINDING: dict[str, Schema] = {
    **_DOCUMENT,
    "subjects": [{**_REFERENCE, "namespace": TEXT}],
    "roleRef": _REFERENCE,
}
SCHEMAS: dict[str, dict[str, Schema]] = {
    "Pod": {**_DOCUMENT, "spec": _POD_SPEC, "status": ANY},
    "Secret": {**_DOCUMENT, **_fields({"*": TEXT}, "data stringData"), "type": TEXT, "immutable": BOOLEAN},
    "Lease": {
        **_DOCUMENT,
        "spec": {
            **_fields(TEXT, "holderIdentity acquireTime renewTime strategy preferredHolder"),
            **_fields(NUMBER, "leaseDurationSeconds leaseTransitions"),
        },
    },
    "PersistentVolumeClaim": {
        **_DOCUMENT,
        "spec": {
            "accessModes": [TEXT],
            "resources": _AMOUNTS,
            **_fields(TEXT, "storageClassName volumeName volumeMode volumeAttributesClassName"),
            **_fields(ANY, "selector dataSource dataSourceRef"),
        },
        "status": ANY,
    },
    "ConfigMap": {**_DOCUMENT, **_fields({"*": TEXT}, "data binaryData"), "immutable": BOOLEAN},
    "ServiceAccount": {**_DOCUMENT, **_fields(ANY, "secrets imagePullSecrets automountServiceAccountToken")},
    "Namespace": {**_DOCUMENT, **_fields(ANY, "spec status")},
    "ResourceQuota": {**_DOCUMENT, **_fields({"*": ANY}, "spec status")},
    **_fields(_ROLE, "Role ClusterRole"),
    **_fields(_BINDING, "RoleBinding ClusterRoleBinding"),
    "PriorityClass": {**_DOCUMENT, "value": NUMBER, **_fields(TEXT, "description preemptionPolicy")},
    "SelfSubjectAccessReview": {**_DOCUMENT, "spec": {"resourceAttributes": {"*": TEXT}}, "status": ANY},
}
"""By kind: every kind that can be created."""

DELETE_OPTIONS: dict[str, Schema] = {
    **_fields(TEXT, "kind apiVersion propagationPolicy"),
    "gracePeriodSeconds": NUMBER,
    "preconditions": _fields(TEXT, "uid resourceVersion"),
    **_fields(BOOLEAN, "orphanDependents ignoreStoreReadErrorWithClusterBreakingPotential"),
    "dryRun": [TEXT],
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


def without_nulls(document: Any) -> Any:
    """Returns the document without fields and items that are null, which Go decodes as absent or as zero values."""
    if isinstance(document, list):
        return [without_nulls(item) for item in document if item is not None]
    if isinstance(document, dict):
        return {field: without_nulls(value) for field, value in document.items() if value is not None}
    return document
