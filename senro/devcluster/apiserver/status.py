"""Refusals in the apiserver's words: `Status` objects, as the recordings have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from senro.devcluster.objects import Object


class Refused(Exception):
    """A request that is answered with a Status instead of what it asked for."""

    def __init__(self, status: Object, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(status["message"])
        self.status = status
        self.headers = headers

    @property
    def code(self) -> int:
        """The HTTP status."""
        return int(self.status["code"])


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object as the API names it: group, plural, kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1`, or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`pods`, or `leases.coordination.k8s.io`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def details(self, name: str = "") -> Object:
        """The `details` of a Status about an object of this resource."""
        details: Object = {"name": name} if name else {}
        if self.group:
            details["group"] = self.group
        details["kind"] = self.plural
        return details


PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


def failure(code: int, reason: str, message: str, details: Object | None = None) -> Object:
    """A Status of a failure. The order of its fields is the apiserver's."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details:
        status["details"] = details
    status["code"] = code
    return status


def success(resource: Resource, name: str, uid: str) -> Object:
    """The Status that a DELETE of anything but a pod answers with (recording lease-lifecycle)."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**resource.details(name), "uid": uid},
    }


def not_found(resource: Resource, name: str) -> Refused:
    """404 NotFound."""
    return Refused(failure(404, "NotFound", f'{resource.qualified} "{name}" not found', resource.details(name)))


def already_exists(resource: Resource, name: str) -> Refused:
    """409 AlreadyExists."""
    message = f'{resource.qualified} "{name}" already exists'
    return Refused(failure(409, "AlreadyExists", message, resource.details(name)))


def conflict(resource: Resource, name: str, why: str) -> Refused:
    """409 Conflict: a precondition or a resourceVersion that no longer holds."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Refused(failure(409, "Conflict", message, resource.details(name)))


def forbidden(resource: Resource, name: str, why: str, causes: list[Object] | None = None) -> Refused:
    """403 Forbidden; `name` is empty where the request names no object."""
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    details = resource.details(name)
    if causes:
        details["causes"] = causes
    return Refused(
        failure(403, "Forbidden", f"{subject} is forbidden: {why}", details),
        (("x-content-type-options", "nosniff"),),
    )


def unauthorized() -> Refused:
    """401: a token that nobody has."""
    return Refused(failure(401, "Unauthorized", "Unauthorized"))


def bad_request(message: str) -> Refused:
    """400 BadRequest."""
    return Refused(failure(400, "BadRequest", message))


def undecodable(resource: Resource, why: str) -> Refused:
    """400: JSON that is no object of that kind."""
    kind = resource.kind
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}')


def method_not_allowed() -> Refused:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return Refused(failure(405, "MethodNotAllowed", message, {}))


def unsupported_media_type(allowed: str) -> Refused:
    """415: a patch of a type that is not served."""
    message = f"the body of the request was in an unknown format - accepted media types include: {allowed}"
    return Refused(failure(415, "UnsupportedMediaType", message, {}))


def too_large() -> Refused:
    """413: a body over 3 MiB (recording refused)."""
    return Refused(
        failure(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        (("connection", "close"),),
    )


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong: its path, the machine's reason, the words."""

    field: str
    reason: str
    message: str

    @classmethod
    def invalid(cls, field: str, value: str, why: str) -> Cause:
        """A value that may not be; `value` as JSON writes it."""
        return cls(field, "FieldValueInvalid", f"Invalid value: {value}: {why}")

    @classmethod
    def required(cls, field: str, why: str = "") -> Cause:
        """A field that is missing."""
        return cls(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")

    @classmethod
    def forbidden(cls, field: str, why: str) -> Cause:
        """A field that may not be set, or not be changed."""
        return cls(field, "FieldValueForbidden", f"Forbidden: {why}")

    @classmethod
    def duplicate(cls, field: str, value: str) -> Cause:
        """A name that comes twice."""
        return cls(field, "FieldValueDuplicate", f"Duplicate value: {value}")

    @classmethod
    def not_found(cls, field: str, value: str) -> Cause:
        """A name that nothing has."""
        return cls(field, "FieldValueNotFound", f"Not found: {value}")

    @classmethod
    def unsupported(cls, field: str, value: str, supported: list[str]) -> Cause:
        """A word that is none of the few that may be."""
        words = ", ".join(f'"{word}"' for word in supported)
        return cls(field, "FieldValueNotSupported", f"Unsupported value: {value}: supported values: {words}")


def invalid(kind: str, name: str, causes: list[Cause], group: str = "") -> Refused:
    """422 Invalid. One cause stands in the message as it is, several in brackets (recording refused)."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    text = told[0] if len(told) == 1 else "[" + ", ".join(told) + "]"
    details: Object = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    subject = f"{kind}.{group}" if group else kind
    return Refused(failure(422, "Invalid", f'{subject} "{name}" is invalid: {text}', details))
