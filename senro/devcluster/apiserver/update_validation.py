"""What may become of an object that is there already."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.status import SECRETS, Cause, invalid
from senro.devcluster.apiserver.validation import check_secret

if TYPE_CHECKING:
    from senro.devcluster.objects import Object


def checked_secret(secret: Object) -> Object:
    """The Secret as it is stored, its stringData taken over into data; 422 where it cannot be one."""
    check_secret(SECRETS, secret)
    data = dict(secret.get("data") or {})
    data |= {key: base64.b64encode(text.encode()).decode() for key, text in (secret.get("stringData") or {}).items()}
    kept = {field: value for field, value in secret.items() if field != "stringData"}
    if data:
        kept["data"] = data
    kept.setdefault("type", "Opaque")
    return kept


def refuse_immutable(current: Object, wanted: Object) -> None:
    """422 for a change of immutable data; metadata may still change (recording secret-lifecycle)."""
    name, kind = current["metadata"]["name"], SECRETS.kind
    causes: list[Cause] = []
    if current.get("immutable"):
        if not wanted.get("immutable"):
            causes.append(Cause.forbidden("immutable", "field is immutable when `immutable` is set"))
        if wanted.get("data") != current.get("data"):
            causes.append(Cause.forbidden("data", "field is immutable when `immutable` is set"))
    if wanted.get("type") != current.get("type"):
        causes.append(Cause.invalid("type", f'"{wanted.get("type")}"', "field is immutable"))
    if causes:
        raise invalid(kind, name, causes)
