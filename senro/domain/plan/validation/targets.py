"""The rules for a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from senro.domain.kube.image_reference import parse_image
from senro.domain.kube.names import (
    OWN_PREFIX,
    is_annotation_key,
    is_dns_label,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
)
from senro.domain.pipeline.targets import Local, Pod, Security, Target
from senro.domain.plan.validation.environment import read_environment
from senro.domain.plan.validation.field_reader import LONGEST_SECONDS, FieldReader, is_instance, quote
from senro.domain.plan.validation.resources import read_resources
from senro.domain.plan.validation.tolerations import read_tolerations

LARGEST_ID: Final = 2_147_483_647
"""The largest user or group id that the apiserver accepts."""

_ANNOTATIONS_BYTES: Final = 256 * 1024 - 4096
"""The size limit of annotations, less room for senro's own two (docs/design/api-rules.md#annotations)."""

_LARGEST_COUNT: Final = 1_000_000


def read_target(value: object, reader: FieldReader) -> Target:
    """The target."""
    if is_instance(value, Local):
        return Local()
    if is_instance(value, Pod):
        return _read_pod(value, reader)
    reader.refuse("type", f"the target is {quote(value)}; write senro.local() or senro.k8s.Pod(...)")
    return Local()


def _read_pod(pod: Pod, reader: FieldReader) -> Pod:
    security = reader.one_of(pod.security, "security", ("baseline", "restricted"), "security")
    before = len(reader.refusals)
    user = _read_id(pod.user, "user", reader)
    if security == "restricted" and not user and len(reader.refusals) == before:
        reader.refuse(
            "restricted-user", "security='restricted' needs a user that is not root; write user= with its numeric id"
        )
    return Pod(
        _read_image(pod.image, "the image", reader),
        _read_namespace(pod.namespace, reader),
        user=user,
        group=_read_id(pod.group, "group", reader),
        security=cast("Security", security),
        resources=read_resources(pod.resources, "resources", reader),
        transfer_resources=read_resources(pod.transfer_resources, "transfer_resources", reader),
        helper=None if pod.helper is None else _read_image(pod.helper, "the helper image", reader),
        claims=_read_claims(pod.claims, reader),
        service_account=_read_object_name(pod.service_account, "service_account", reader),
        node_selector=_read_labels(pod.node_selector, "node_selector", reader),
        tolerations=read_tolerations(pod.tolerations, reader),
        image_pull_secrets=tuple(
            name
            for place, item in enumerate(reader.items(pod.image_pull_secrets, "image_pull_secrets"))
            if (name := _read_object_name(item, f"entry {place} of image_pull_secrets", reader, optional=False))
        ),
        priority_class=_read_object_name(pod.priority_class, "priority_class", reader),
        runtime_class=_read_object_name(pod.runtime_class, "runtime_class", reader),
        env=read_environment(pod.env, "env of the target", reader),
        labels=_read_labels(pod.labels, "labels", reader, reserved=True),
        annotations=_read_annotations(pod.annotations, reader),
        start_timeout=reader.seconds(pod.start_timeout, "start_timeout", "start-timeout"),
        max_lifetime=reader.seconds(pod.max_lifetime, "max_lifetime", "max-lifetime"),
        # With 0, a deletion would remove the pod while its processes still run
        # (docs/design/api-rules.md#grace-of-a-deletion).
        grace=reader.integer(pod.grace, "grace", "grace", 1, LONGEST_SECONDS),
        max_pods=None
        if pod.max_pods is None
        else reader.integer(pod.max_pods, "max_pods", "max-pods", 1, _LARGEST_COUNT),
    )


def _read_image(value: object, what: str, reader: FieldReader) -> str:
    image = reader.text_or_none(value, what)
    if image is None:
        return "x"
    try:
        parse_image(image)
    except ValueError as problem:
        reader.refuse("image", f"{what} {quote(image)} is refused: {problem}")
    return image


def _read_namespace(value: object, reader: FieldReader) -> str:
    if value is None:
        reader.refuse("namespace", "the target has no namespace, and there is no default; write namespace='...'")
        return "x"
    namespace = reader.text_or_none(value, "the namespace")
    if namespace is not None and not is_dns_label(namespace):
        reader.refuse(
            "namespace",
            f"the namespace {quote(namespace)} is not up to 63 lower-case letters, digits and `-`, with no `-` at an "
            "end; write the name of one that exists",
        )
    return namespace or "x"


def _read_id(value: object, what: str, reader: FieldReader) -> int | None:
    return None if value is None else reader.integer(value, what, what, 0, LARGEST_ID)


def _read_object_name(value: object, what: str, reader: FieldReader, *, optional: bool = True) -> str | None:
    if value is None and optional:
        return None
    name = reader.text_or_none(value, what)
    if name is not None and not is_dns_subdomain(name):
        reader.refuse(
            "object-name",
            f"{what} is {quote(name)}, which is not a valid name; write lower-case letters, digits, `-` and `.`",
        )
    return name


def _read_claims(value: object, reader: FieldReader) -> dict[str, str]:
    """The claims by the names of the workspaces that they replace, of which each has its own claim."""
    found: dict[str, str] = {}
    for workspace, item in reader.mapping(value, "claims").items():
        if not is_dns_label(workspace):
            reader.refuse("claims", f"claims has the key {quote(workspace)}; a key is the name of a workspace")
        claim = _read_object_name(item, f"claims[{quote(workspace)}]", reader, optional=False)
        if claim in found.values():
            reader.refuse(
                "claims",
                f"the claim {quote(claim)} replaces two workspaces, which would both use it at once; mount one of them",
            )
        found[workspace] = claim or "x"
    return found


def _read_labels(value: object, what: str, reader: FieldReader, *, reserved: bool = False) -> dict[str, str]:
    found = _read_pairs(value, what, reader, is_label_key, "label-key")
    for key, label in found.items():
        if not is_label_value(label):
            reader.refuse(
                "label-value",
                f"{what}[{quote(key)}] is {quote(label)}; a label's value is up to 63 letters, digits, `-`, `_` and "
                "`.`, a letter or digit at each end; put longer texts in annotations",
            )
    if reserved:
        _refuse_reserved(found, what, reader)
    return found


def _read_annotations(value: object, reader: FieldReader) -> dict[str, str]:
    found = _read_pairs(value, "annotations", reader, is_annotation_key, "annotation-key")
    _refuse_reserved(found, "annotations", reader)
    size = sum(len(key.encode()) + len(text.encode()) for key, text in found.items())
    if size > _ANNOTATIONS_BYTES:
        reader.refuse(
            "annotations-size",
            f"annotations have {size} bytes in total; a pod accepts {_ANNOTATIONS_BYTES} besides senro's; shorten them",
        )
    return found


def _read_pairs(
    value: object, what: str, reader: FieldReader, is_key: Callable[[str], bool], rule: str
) -> dict[str, str]:
    found = {}
    for key, text in reader.mapping(value, what).items():
        if is_key(key):
            found[key] = reader.text(text, f"{what}[{quote(key)}]")
        else:
            reader.refuse(
                rule,
                f"{what} has the key {quote(key)}; a key is up to 63 letters, digits, `-`, `_` and `.`, after an "
                "optional prefix such as `example.com/`",
            )
    return found


def _refuse_reserved(found: Mapping[str, Any], what: str, reader: FieldReader) -> None:
    for key in found:
        prefix = key.rpartition("/")[0].lower()
        if prefix == OWN_PREFIX or prefix.endswith(f".{OWN_PREFIX}"):
            reader.refuse(
                "own-key", f"{what} has {quote(key)}; keys in {OWN_PREFIX}/ are reserved for senro; use another prefix"
            )
