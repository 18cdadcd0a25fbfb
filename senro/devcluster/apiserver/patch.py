"""JSON merge patch (RFC 7386), the one kind of PATCH that senro sends."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from senro.devcluster.apiserver.status import unsupported_media_type

if TYPE_CHECKING:
    from senro.devcluster.apiserver.http import Request

MERGE = "application/merge-patch+json"


def check_patch_type(request: Request) -> None:
    """Raise 415 unless the body is a merge patch. A charset is tolerated. See docs/design/api-rules.md#patches."""
    given = request.headers.get("content-type", "").partition(";")[0].strip()
    if given != MERGE:
        raise unsupported_media_type(MERGE)


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
