"""Request bodies: decoded, checked for their fields and types, refused in the apiserver's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from senro.devcluster.apiserver.schema import DELETE_OPTIONS, unknown_fields, wrong_type
from senro.devcluster.apiserver.status import bad_request, too_large, undecodable, unsupported_media_type
from senro.devcluster.apiserver.validation import refuse_unknown, undecodable_json

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.schema import Schema
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object


def decode_body(request: Request, resource: Resource, schema: Schema) -> Object:
    """The object in the body: of the right kind, with fields that are known (or dropped, unless Strict)."""
    document = _decode(request, resource)
    kind, version = document.get("kind", resource.kind), document.get("apiVersion", resource.api_version)
    if kind != resource.kind or version != resource.api_version:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"no kind {kind!r} is registered for version {version!r}"
        )
    if problem := wrong_type(document, schema):
        raise undecodable(resource, problem)
    unknown = unknown_fields(document, schema)
    if request.parameter("fieldValidation") == "Strict":
        refuse_unknown(resource, unknown)
    return _without(document, schema) if unknown else document


def decode_patch(request: Request, resource: Resource) -> Object:
    """A merge patch: any JSON object."""
    return _decode(request, resource)


_JSON_TYPES = frozenset({"", "application/json", "application/merge-patch+json"})


class DeleteOptions:
    """What a DELETE asks for: from the body where there is one, else from the query."""

    __slots__ = ("grace_seconds", "resource_version", "uid")

    def __init__(self, request: Request, resource: Resource) -> None:
        options: Object = {}
        if request.oversized or request.body:
            options = _decode(request, resource)
            if problem := wrong_type(options, DELETE_OPTIONS):
                raise bad_request(problem)
        elif grace := request.parameter("gracePeriodSeconds"):
            if not grace.lstrip("-").isdigit():
                raise bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax')
            options = {"gracePeriodSeconds": int(grace)}
        preconditions = options.get("preconditions") or {}
        self.grace_seconds: int | None = options.get("gracePeriodSeconds")
        self.uid = str(preconditions.get("uid") or "")
        self.resource_version = str(preconditions.get("resourceVersion") or "")


def _decode(request: Request, resource: Resource) -> Object:
    if request.oversized:
        raise too_large()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if media_type not in _JSON_TYPES:
        raise unsupported_media_type("application/json")
    try:
        document: Any = msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise undecodable_json(resource, request.body, str(error)) from None
    if not isinstance(document, dict):
        raise undecodable_json(resource, request.body, "the body is no object")
    return document


def _without(document: Any, schema: Schema) -> Any:
    if isinstance(schema, list) and isinstance(document, list):
        return [_without(item, schema[0]) for item in document]
    if not isinstance(schema, dict) or not isinstance(document, dict):
        return document
    kept = ((field, value, schema.get(field, schema.get("*"))) for field, value in document.items())
    return {field: _without(value, below) for field, value, below in kept if below is not None}
