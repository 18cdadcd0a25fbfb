"""Merge patches (RFC 7386), which is all that senro sends."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.status import unsupported_media_type

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request

_MERGE = "application/merge-patch+json"


def patch_type(request: Request) -> None:
    """415 for a patch of any other type; a charset is tolerated (facts/api-rules.md section 6)."""
    given = request.headers.get("content-type", "").partition(";")[0].strip()
    if given != _MERGE:
        raise unsupported_media_type(_MERGE)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes a key, objects are merged, everything else is replaced whole."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
