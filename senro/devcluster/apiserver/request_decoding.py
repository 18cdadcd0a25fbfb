"""Request bodies: decoded, checked for their fields and types, refused in the apiserver's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml

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
from senro.devcluster.apiserver.validation import refuse_unknown, undecodable_json

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.schema import Schema
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

_JSON_TYPES = frozenset({"", "application/json", MERGE})
_YAML = "application/yaml"


def decode_body(request: Request, resource: Resource, warnings: list[str]) -> Object:
    """The object in the body, of the right kind; `checked_fields` has gone over it."""
    document = decode_object(request, resource)
    kind, version = document.get("kind") or resource.kind, document.get("apiVersion") or resource.api_version
    if kind != resource.kind or version != resource.api_version:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f'no kind "{kind}" is registered for version "{version}"'
        )
    return checked_fields(request, resource, document, warnings)


def checked_fields(request: Request, resource: Resource, document: Object | None, warnings: list[str]) -> Object:
    """The object with the fields that are known: others are refused, told in a warning, or dropped in silence.

    As `fieldValidation` says; a server warns where it says nothing (docs/design/api-rules.md#fieldvalidation).
    """
    schema = SCHEMAS[resource.kind]
    if document is None:  # what a patch made of it
        raise undecodable(resource, "unexpected end of JSON input")
    if problem := wrong_type(document, schema):
        raise undecodable(resource, problem)
    document = without_nulls(document, schema)
    unknown = unknown_fields(document, schema)
    wanted = request.parameter("fieldValidation") or "Warn"
    if wanted not in {"Strict", "Warn", "Ignore"}:
        supported = Cause.unsupported("fieldValidation", f'"{wanted}"', ["Ignore", "Strict", "Warn"])
        raise invalid("CreateOptions", "", [supported], "meta.k8s.io")
    if wanted == "Strict":
        refuse_unknown(resource, unknown)
    elif wanted == "Warn":
        warnings += [f'unknown field "{field}"' for field in unknown]
    known: Object = _without(document, schema) if unknown else document
    return known


def decode_object(request: Request, resource: Resource) -> Object:
    """The body, which has to be one object; nothing of it is checked."""
    document = decode_document(request, resource)
    if not isinstance(document, dict):
        raise undecodable_json(resource, request.body)
    return document


class DeleteOptions:
    """What a DELETE asks for: from the body where there is one, else from the query."""

    __slots__ = ("dry_run", "grace_seconds", "resource_version", "uid")

    def __init__(self, request: Request, resource: Resource) -> None:
        options: Object = {}
        if request.oversized or request.body:
            options = decode_object(request, resource)
            if problem := wrong_type(options, DELETE_OPTIONS):
                raise bad_request(problem)
        elif grace := request.parameter("gracePeriodSeconds"):
            options = {"gracePeriodSeconds": parse_integer(grace)}
        preconditions = options.get("preconditions") or {}
        self.grace_seconds: int | None = options.get("gracePeriodSeconds")
        self.uid = str(preconditions.get("uid") or "")
        self.resource_version = str(preconditions.get("resourceVersion") or "")
        self.dry_run = is_dry_run([*(options.get("dryRun") or []), *request.parameters("dryRun")])


def is_dry_run(values: list[str]) -> bool:
    """Whether nothing is to be stored; 422 for any value but `All`."""
    for value in values:
        if value != "All":
            raise invalid("CreateOptions", "", [Cause.unsupported("dryRun", f'"{value}"', ["All"])], "meta.k8s.io")
    return bool(values)


def decode_document(request: Request, resource: Resource) -> Any:
    """The body, JSON or YAML, whatever it is."""
    if request.oversized:
        raise too_large()
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    if media_type == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode(request.body)
        except protobuf.UnreadableError:
            raise unsupported_media_type("application/json, application/yaml") from None
    if media_type not in {*_JSON_TYPES, _YAML}:
        raise unsupported_media_type("application/json, application/yaml")
    try:
        document: Any = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError):
        if media_type != _YAML:
            raise undecodable_json(resource, request.body) from None
    else:
        return document
    try:
        # What JSON cannot say (half a letter, a key that is a list) is no object, as where YAML becomes JSON first.
        return msgspec.json.decode(msgspec.json.encode(yaml.safe_load(request.body)))
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from None


def _without(document: Any, schema: Schema) -> Any:
    if isinstance(schema, list) and isinstance(document, list):
        return [_without(item, schema[0]) for item in document]
    if not isinstance(schema, dict) or not isinstance(document, dict):
        return document
    kept = ((field, value, schema.get(field, schema.get("*"))) for field, value in document.items())
    return {field: _without(value, below) for field, value, below in kept if below is not None}
