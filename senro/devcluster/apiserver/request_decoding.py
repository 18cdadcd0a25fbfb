"""Decodes request bodies, checks their fields and types, and refuses them in the apiserver's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from senro.devcluster.apiserver import protobuf
from senro.devcluster.apiserver.integers import parse_integer
from senro.devcluster.apiserver.patch import MERGE
from senro.devcluster.apiserver.schema import DELETE_OPTIONS, SCHEMAS, unknown_fields, without_nulls, wrong_type
from senro.devcluster.apiserver.status import (
    Cause,
    bad_request,
    invalid,
    too_large,
    undecodable,
    unsupported_media_type,
)
from senro.devcluster.apiserver.validation import undecodable_json

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_JSON_TYPES = frozenset({"", "application/json", MERGE})


def decode_body(request: Request, resource: Resource) -> Object:
    """Returns the object in the body, checked by `check_fields`; 400 for an object of another kind."""
    document = decode_object(request, resource)
    kind, version = document.get("kind") or resource.kind, document.get("apiVersion") or resource.api_version
    if kind != resource.kind or version != resource.api_version:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f'no kind "{kind}" is registered for version "{version}"'
        )
    return check_fields(resource, document)


def check_fields(resource: Resource, document: Object) -> Object:
    """Returns the object without its nulls; 400 for a value of a wrong type and for a field that is not known.

    The apiserver refuses unknown fields with `fieldValidation=Strict` only, which senro and kubectl ask for; here they
    are always refused (docs/design/api-rules.md#fieldvalidation).
    """
    schema = SCHEMAS[resource.kind]
    if problem := wrong_type(document, schema):
        raise undecodable(resource, problem)
    if unknown := [f'unknown field "{field}"' for field in unknown_fields(document, schema)]:
        raise undecodable(resource, f"strict decoding error: {', '.join(unknown)}")
    checked: Object = without_nulls(document)
    return checked


class DeleteOptions:
    """What a DELETE asks for: from the body if there is one, else from the query."""

    __slots__ = ("grace_seconds", "resource_version", "uid")

    def __init__(self, request: Request, resource: Resource) -> None:
        options: Object = {}
        if request.oversized or request.body:
            options = decode_object(request, resource)
            if problem := wrong_type(options, DELETE_OPTIONS):
                raise bad_request(problem)
        elif grace := request.parameter("gracePeriodSeconds"):
            options = {"gracePeriodSeconds": parse_integer(grace)}
        if options.get("dryRun"):
            raise bad_request("the embedded cluster serves dryRun for creates only")
        preconditions = options.get("preconditions") or {}
        self.grace_seconds: int | None = options.get("gracePeriodSeconds")
        self.uid = str(preconditions.get("uid") or "")
        self.resource_version = str(preconditions.get("resourceVersion") or "")


def is_dry_run(request: Request) -> bool:
    """Whether the query says that nothing is to be stored; 422 for any value but `All`."""
    values = request.parameters("dryRun")
    for value in values:
        if value != "All":
            raise invalid("CreateOptions", "", [Cause.unsupported("dryRun", f'"{value}"', ["All"])], "meta.k8s.io")
    return bool(values)


def decode_object(request: Request, resource: Resource) -> Object:
    """Returns the body, which has to be one JSON object; its fields are not checked."""
    if request.oversized:
        raise too_large()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if media_type == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode(request.body)
        except protobuf.UnreadableError:
            raise unsupported_media_type("application/json") from None
    if media_type not in _JSON_TYPES:
        raise unsupported_media_type("application/json")
    try:
        document: Any = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError):
        raise undecodable_json(resource, request.body) from None
    if not isinstance(document, dict):
        raise undecodable_json(resource, request.body)
    return document
