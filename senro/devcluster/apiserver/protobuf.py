r"""The one protobuf body that kubectl sends for what is served here: the SelfSubjectAccessReview of `auth can-i`.

An envelope (`k8s\\0`, then runtime.Unknown) names the kind; the field numbers are those of the API's `generated.proto`.
Any other kind is refused with 415, as an unknown media type is.
"""

from __future__ import annotations

from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_KIND = "SelfSubjectAccessReview"

_Fields = dict[int, tuple[str, Any]]
"""Field number to name and kind: None for text, True for bytes, or the fields of a message."""

_ENVELOPE: _Fields = {1: ("typeMeta", {1: ("apiVersion", None), 2: ("kind", None)}), 2: ("raw", True)}
_RESOURCE: _Fields = {
    number: (name, None)
    for number, name in enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)
}
_REVIEW: _Fields = {2: ("spec", {1: ("resourceAttributes", _RESOURCE)})}


class UnreadableError(Exception):
    """The body is no envelope, or of another kind."""


def decode(body: bytes) -> dict[str, Any]:
    """The review in an envelope. Raises `UnreadableError`."""
    try:
        envelope = _read(body.removeprefix(_MAGIC), _ENVELOPE)
        if not body.startswith(_MAGIC) or envelope["typeMeta"]["kind"] != _KIND:
            raise UnreadableError
        return {**envelope["typeMeta"], **_read(envelope["raw"], _REVIEW)}
    except (LookupError, UnicodeDecodeError) as error:
        raise UnreadableError from error


def _read(data: bytes, fields: _Fields) -> dict[str, Any]:
    """The length-delimited fields of a message that are named; these messages have no others that matter."""
    found: dict[str, Any] = {}
    position = 0
    while position < len(data):
        tag, position = _number(data, position)
        if tag & 7 != 2:
            raise UnreadableError
        size, position = _number(data, position)
        value, position = data[position : position + size], position + size
        name, kind = fields.get(tag >> 3, ("", True))
        if value and name:
            found[name] = value if kind is True else value.decode() if kind is None else _read(value, kind)
    return found


def _number(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
