"""The fields of a Pod that senro reads, decoded from any JSON.

What is absent, null or of a wrong type is the field's default. Times remain the strings that the apiserver sent; see
`parse_time`. What the fields mean is in `senro.domain.verdict`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

_T = TypeVar("_T")
_INT64_DIGITS = 20


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner of the object, which the garbage collector deletes when its last owner is gone."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of an object. `deletion_timestamp` is when the grace period of its deletion ends."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class Resources(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The limits of a container, in Kubernetes' quantities."""

    limits: dict[str, str] = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of the spec. `restart_policy` is `Always` for a sidecar among the init containers."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None
    resources: Resources = Resources()


class EmptyDir(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Space on the node. The kubelet evicts a pod that exceeds the `size_limit`."""

    size_limit: str | None = None


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume of the pod; senro reads `emptyDir` alone."""

    name: str = ""
    empty_dir: EmptyDir | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod. `node_name` is empty until the pod is scheduled."""

    node_name: str = ""
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class ContainerStateWaiting(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The container does not run yet. Without a reason it is created and not started."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The container's process runs, as far as the kubelet knows."""

    started_at: str | None = None


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The container ended. `started_at` is None or in 1970 if it never started, or if that is unknown.

    `exit_code` is None if the document has no number, so that an absent code is no success.
    """

    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(name="containerID", default="")


class ContainerState(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """At most one of the three is present; without any the container waits."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a container. `last_state` is about its previous instance."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    container_id: str = msgspec.field(name="containerID", default="")


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition of the pod. `status` is `True`, `False` or `Unknown`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod. The phase may follow the containers by seconds (recording `exit-zero`)."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A pod, reduced to what senro reads."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """The pod's uid, which no other pod of its name ever has."""
        return self.metadata.uid

    def container(self, name: str) -> ContainerStatus | None:
        """The status of the container of that name, None if there is none."""
        for status in self.status.container_statuses:
            if status.name == name:
                return status
        return None

    def init_container(self, name: str) -> ContainerStatus | None:
        """The status of the init container of that name, None if there is none."""
        return next((status for status in self.status.init_container_statuses if status.name == name), None)

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None if the pod has none."""
        return next((condition for condition in self.status.conditions if condition.type == kind), None)


def decode_pod(data: bytes) -> Pod:
    """Decodes a pod from any JSON document. Raises ValueError if `data` is not JSON.

    A valid pod decodes in one pass; anything else goes through `pod_from`.
    """
    return decode_object(data, Pod)


def pod_from(value: object) -> Pod:
    """The pod in a decoded JSON value. What has a wrong type is absent."""
    return object_from(value, Pod)


def decode_object(data: bytes, shape: type[_T]) -> _T:
    """As `decode_pod`, for any struct whose fields all have defaults."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, RecursionError):
        return object_from(_parsed(data), shape)


def object_from(value: object, shape: type[_T]) -> _T:
    """As `pod_from`, for any struct whose fields all have defaults."""
    mended = _mended(value, shape)
    return shape() if mended is msgspec.UNSET else cast("_T", mended)


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time, in UTC; None for anything else. Nine decimals, as in logs, are cut to six."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _parsed(data: bytes) -> object:
    """Decodes any JSON, also what msgspec refuses: huge numbers, halves of surrogate pairs."""
    try:
        return json.loads(data.decode(), parse_int=_whole_number, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("JSON nested deeper than any Kubernetes object") from None


def _whole_number(text: str) -> int | None:
    # Python refuses integers of more than 4300 digits; Kubernetes has int64.
    return int(text) if len(text) <= _INT64_DIGITS else None


def _refuse_constant(text: str) -> object:
    raise ValueError(f"{text} is no JSON")


def _mended(value: object, shape: Any) -> object:
    """`value` as `shape`, or UNSET if it has a wrong type. A part with a wrong type is left out, not the whole."""
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return _mended_struct(value, shape)
    arguments = get_args(shape)
    if get_origin(shape) is tuple:
        parts = [_mended(part, arguments[0]) for part in value] if isinstance(value, list) else []
        return tuple(part for part in parts if part is not msgspec.UNSET)
    if get_origin(shape) is dict:
        pairs = value.items() if isinstance(value, dict) else ()
        return {_text(key): _text(text) for key, text in pairs if isinstance(key, str) and isinstance(text, str)}
    if arguments:  # T | None
        return _mended(value, arguments[0])
    if isinstance(value, str) and shape is str:
        return _text(value)
    if type(value) is shape:  # bool is no int here
        return value
    return int(value) if shape is int and isinstance(value, float) and value.is_integer() else msgspec.UNSET


def _mended_struct(value: object, shape: type[msgspec.Struct]) -> object:
    if not isinstance(value, dict):
        return msgspec.UNSET
    mended = {name: _mended(value.get(key), hint) for name, key, hint in _fields(shape)}
    return shape(**{name: part for name, part in mended.items() if part is not msgspec.UNSET})


@cache
def _fields(shape: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Each field's name, its name on the wire, and its type."""
    hints = get_type_hints(shape)
    return tuple((field.name, field.encode_name, hints[field.name]) for field in msgspec.structs.fields(shape))


def _text(text: str) -> str:
    """The text with halves of surrogate pairs as `?`, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode()
