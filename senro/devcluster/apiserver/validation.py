"""What the apiserver refuses in a pod, a Secret or a Lease, in its own words (recordings refused, lease-lifecycle)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.quantities import PATTERN, parse_quantity
from senro.devcluster.apiserver.status import Cause, bad_request, invalid, undecodable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_WHOLE_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(.*)")
_ANNOTATIONS_LIMIT = 262_144
_SECRET_LIMIT = 1_048_576

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_PART_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_ENV_NAME_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def quoted(value: Any) -> str:
    """A value as messages show it: JSON."""
    return json.dumps(value, ensure_ascii=False)


def check_metadata(meta: Object, *, require_name: bool = True) -> list[Cause]:
    """Name, labels, annotations, owner references."""
    causes: list[Cause] = []
    name = meta.get("name", "")
    if require_name and not name:
        causes.append(Cause.required("metadata.name", "name or generateName is required"))
    elif name and (len(name) > 253 or not re.fullmatch(_SUBDOMAIN, name)):
        rule = "must be no more than 253 characters" if len(name) > 253 else SUBDOMAIN_RULE
        causes.append(Cause.invalid("metadata.name", quoted(name), rule))
    for key, value in (meta.get("labels") or {}).items():
        causes += _check_key("metadata.labels", key)
        if len(value.encode()) > 63:
            causes.append(Cause.invalid("metadata.labels", quoted(value), "must be no more than 63 bytes"))
        elif not re.fullmatch(_LABEL_VALUE, value):
            causes.append(Cause.invalid("metadata.labels", quoted(value), _LABEL_VALUE_RULE))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        causes += _check_key("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        causes.append(
            Cause(
                "metadata.annotations",
                "FieldValueTooLong",
                f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes",
            )
        )
    for index, owner in enumerate(meta.get("ownerReferences") or []):
        place = f"metadata.ownerReferences[{index}]"
        causes += [
            Cause.invalid(f"{place}.{field}", '""', "must not be empty")
            for field in ("apiVersion", "kind", "name", "uid")
            if not owner.get(field)
        ]
    return causes


def _check_key(place: str, key: str) -> list[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not re.fullmatch(_SUBDOMAIN, prefix)):
        return [Cause.invalid(place, quoted(key), f"prefix part {SUBDOMAIN_RULE}")]
    if len(name.encode()) > 63:
        return [Cause.invalid(place, quoted(key), "name part must be no more than 63 bytes")]
    if not re.fullmatch(_QUALIFIED, name):
        return [Cause.invalid(place, quoted(key), _NAME_PART_RULE)]
    return []


def check_pod(resource: Resource, pod: Object) -> None:
    """Refuse what cannot be a pod: 400 for quantities that do not decode, 422 for everything else."""
    spec = pod.get("spec") or {}
    containers = spec.get("containers") or []
    initial = spec.get("initContainers") or []
    for container in (*containers, *initial):
        for amounts in (container.get("resources") or {}).values():
            decode_quantities(resource, amounts)
    for volume in spec.get("volumes") or []:
        size = (volume.get("emptyDir") or {}).get("sizeLimit")
        if size is not None:
            decode_quantities(resource, {"sizeLimit": size})
    causes = check_metadata(pod["metadata"])
    volumes, volume_causes = _check_volumes(spec.get("volumes") or [])
    causes += volume_causes
    if not containers:
        causes.append(Cause.required("spec.containers"))
    names: set[str] = set()
    for place, group in (("spec.containers", containers), ("spec.initContainers", initial)):
        for index, container in enumerate(group):
            causes += _check_container(f"{place}[{index}]", container, volumes, names)
    causes += _check_pod_fields(spec)
    if causes:
        raise invalid(resource.kind, pod["metadata"].get("name", ""), causes)


def decode_quantities(resource: Resource, amounts: Any) -> None:
    """400 where one of the amounts of a map is no quantity."""
    if isinstance(amounts, dict) and any(parse_quantity(value) is None for value in amounts.values()):
        raise undecodable(resource, f"quantities must match the regular expression '{PATTERN}'")


def _check_volumes(volumes: list[Object]) -> tuple[set[str], list[Cause]]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        place = f"spec.volumes[{index}]"
        causes += _check_name(f"{place}.name", volume.get("name", ""), names)
        for kind, field in (("secret", "secretName"),):
            if volume.get(kind) is not None:
                causes += _check_files(f"{place}.{kind}", volume[kind], field)
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            causes.append(Cause.required(f"{place}.persistentVolumeClaim.claimName"))
    return names, causes


def _check_files(place: str, source: Object, name: str) -> list[Cause]:
    """A volume of a Secret or a ConfigMap: what it is of, where its items go, and their modes."""
    causes = [] if source.get(name) else [Cause.required(f"{place}.{name}")]
    modes = [(source.get("defaultMode"), f"{place}.defaultMode")]
    for position, item in enumerate(source.get("items") or []):
        where = f"{place}.items[{position}]"
        modes.append((item.get("mode"), f"{where}.mode"))
        path = item.get("path", "")
        if not item.get("key"):
            causes.append(Cause.required(f"{where}.key"))
        if not path:
            causes.append(Cause.required(f"{where}.path"))
        elif path.startswith("/") or ".." in path.split("/"):
            causes.append(Cause.invalid(f"{where}.path", quoted(path), "must be a relative path without '..'"))
    words = "must be a number between 0 and 0777 (octal), both inclusive"
    causes += [
        Cause.invalid(where, quoted(mode), words)
        for mode, where in modes
        if mode is not None and not 0 <= mode <= 0o777
    ]
    return causes


def _check_container(place: str, container: Object, volumes: set[str], names: set[str]) -> list[Cause]:
    causes = _check_name(f"{place}.name", container.get("name", ""), names)
    if not container.get("image"):
        causes.append(Cause.required(f"{place}.image"))
    policy = container.get("imagePullPolicy")
    if policy is not None and policy not in {"Always", "IfNotPresent", "Never"}:
        causes.append(
            Cause.unsupported(f"{place}.imagePullPolicy", quoted(policy), ["Always", "IfNotPresent", "Never"])
        )
    for index, variable in enumerate(container.get("env") or []):
        causes += _check_variable(f"{place}.env[{index}]", variable)
    causes += _check_mounts(place, container.get("volumeMounts") or [], volumes)
    causes += _check_resources(f"{place}.resources", container.get("resources") or {})
    return causes


def _check_name(place: str, name: str, names: set[str]) -> list[Cause]:
    """A name that has to be a label and the only one of its kind; it is remembered in `names`."""
    taken = name in names
    names.add(name)
    if not name:
        return [Cause.required(place)]
    if len(name) > 63 or not re.fullmatch(_LABEL, name):
        return [Cause.invalid(place, quoted(name), LABEL_RULE)]
    return [Cause.duplicate(place, quoted(name))] if taken else []


def _check_mounts(place: str, mounts: list[Object], volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    mounted: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{place}.volumeMounts[{index}]"
        path = mount.get("mountPath", "")
        if mount.get("name", "") not in volumes:
            causes.append(Cause.not_found(f"{where}.name", quoted(mount.get("name", ""))))
        if not path:
            causes.append(Cause.required(f"{where}.mountPath"))
        elif path in mounted:
            causes.append(Cause.invalid(f"{where}.mountPath", quoted(path), "must be unique"))
        elif ":" in path:
            causes.append(Cause.invalid(f"{where}.mountPath", quoted(path), "must not contain ':'"))
        mounted.add(path)
    return causes


def _check_variable(place: str, variable: Object) -> list[Cause]:
    name = variable.get("name", "")
    if not name:
        return [Cause.required(f"{place}.name")]
    if "=" in name or not all(" " <= letter <= "~" for letter in name):
        return [Cause.invalid(f"{place}.name", quoted(name), _ENV_NAME_RULE)]
    if variable.get("value") and variable.get("valueFrom"):
        return [Cause.invalid(f"{place}.valueFrom", '""', "may not be specified when `value` is not empty")]
    source = variable.get("valueFrom") or {}
    return [
        Cause.required(f"{place}.valueFrom.{kind}.{field}")
        for kind, field in (("fieldRef", "fieldPath"), ("secretKeyRef", "key"))
        if kind in source and not source[kind].get(field)
    ]


def _check_resources(place: str, resources: Object) -> list[Cause]:
    limits = resources.get("limits") or {}
    causes: list[Cause] = []
    for name, requested in (resources.get("requests") or {}).items():
        limit = limits.get(name)
        if limit is None:
            continue
        wanted, allowed = parse_quantity(requested), parse_quantity(limit)
        if wanted is not None and allowed is not None and wanted > allowed:
            causes.append(
                Cause.invalid(
                    f"{place}.requests",
                    quoted(str(requested)),
                    f"must be less than or equal to {name} limit of {limit}",
                )
            )
    return causes


def _check_pod_fields(spec: Object) -> list[Cause]:
    causes: list[Cause] = []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        causes.append(
            Cause.invalid("spec.activeDeadlineSeconds", quoted(deadline), "must be between 1 and 2147483647, inclusive")
        )
    policy = spec.get("restartPolicy")
    if policy is not None and policy not in {"Always", "OnFailure", "Never"}:
        causes.append(Cause.unsupported("spec.restartPolicy", quoted(policy), ["Always", "OnFailure", "Never"]))
    for index, toleration in enumerate(spec.get("tolerations") or []):
        place = f"spec.tolerations[{index}]"
        operator = toleration.get("operator", "")
        if operator == "Exists" and toleration.get("value"):
            causes.append(
                Cause.invalid(
                    f"{place}.operator", quoted(toleration["value"]), "value must be empty when `operator` is 'Exists'"
                )
            )
        elif not toleration.get("key") and operator != "Exists":
            causes.append(
                Cause.invalid(
                    f"{place}.operator",
                    quoted(operator),
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
    return causes


def check_secret(resource: Resource, secret: Object) -> None:
    """Refuse what cannot be a Secret; `data` has to be base64 (recording secret-lifecycle)."""
    data = secret.get("data") or {}
    sizes = [_decoded_size(resource, value) for value in data.values()]
    causes = [*check_metadata(secret["metadata"]), *_check_config_keys("data", data)]
    if sum(sizes) > _SECRET_LIMIT:
        causes.append(Cause("data", "FieldValueTooLong", f"Too long: may not be more than {_SECRET_LIMIT} bytes"))
    if causes:
        raise invalid(resource.kind, secret["metadata"].get("name", ""), causes)


def _check_config_keys(place: str, keys: Iterable[str]) -> list[Cause]:
    return [
        Cause.invalid(f"{place}[{key}]", quoted(key), _CONFIG_KEY_RULE)
        for key in keys
        if len(key) > 253 or not re.fullmatch(_CONFIG_KEY, key) or key == "." or key.startswith("..")
    ]


def _decoded_size(resource: Resource, value: str) -> int:
    try:
        return len(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        raise undecodable(resource, "illegal base64 data at input byte 0") from None


def check_lease(resource: Resource, lease: Object) -> None:
    """Refuse what cannot be a Lease: times without six decimals do not decode (recording lease-lifecycle)."""
    spec = lease.get("spec") or {}
    for field in ("acquireTime", "renewTime"):
        _decode_micro_time(resource, spec.get(field))
    causes = check_metadata(lease["metadata"])
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(Cause.invalid("spec.leaseDurationSeconds", quoted(duration), "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(Cause.invalid("spec.leaseTransitions", quoted(transitions), "must be greater than or equal to 0"))
    if causes:
        raise invalid(resource.plural, lease["metadata"].get("name", ""), causes, resource.group)


def _decode_micro_time(resource: Resource, text: str | None) -> None:
    if text is None or _MICRO_TIME.fullmatch(text):
        return
    found = _WHOLE_TIME.fullmatch(text)
    rest, wanted = (found.group(2), ".000000") if found else (text, "2006")
    raise undecodable(
        resource,
        f'parsing time {quoted(text)} as "2006-01-02T15:04:05.000000Z07:00": cannot parse {quoted(rest)} as "{wanted}"',
    )


def undecodable_json(resource: Resource, body: bytes) -> Exception:
    """400 for a body that is no JSON object, in the words of Go's decoder where it is the first letter that fails."""
    shown = body[:64].decode("utf-8", "replace")
    return bad_request(
        f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
        f"json parse error: {_go_words(body)} ({shown})"
    )


def _go_words(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    trimmed = text.lstrip()
    if not trimmed:
        return "unexpected end of JSON input"
    if trimmed.startswith("{"):
        behind = trimmed[1:].lstrip()
        if behind and behind[0] not in {'"', "}"}:
            return f"invalid character '{behind[0]}' looking for beginning of object key string"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            return "unexpected end of JSON input"
        return f"invalid character '{text[error.pos]}' looking for beginning of value"
    except RecursionError:
        return "exceeded max depth"
    except ValueError:  # a number of thousands of digits
        return "json: cannot unmarshal number into Go value of type float64"
    return "json: cannot unmarshal the document into Go value of type struct"
