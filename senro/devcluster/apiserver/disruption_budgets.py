"""PodDisruptionBudgets: whether an eviction may happen now (docs/design/api-rules.md#eviction)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.resources import BUDGETS
from senro.devcluster.apiserver.selectors import matches
from senro.devcluster.apiserver.status import PODS, Refused, failure

if TYPE_CHECKING:
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_RETRY_SECONDS = 10


def check_budgets(storage: Storage, pod: Object) -> None:
    """429 where a budget that covers the pod allows no disruption; a pod that is over or pending is never covered."""
    if pod["status"].get("phase") in {"Succeeded", "Failed", "Pending"}:
        return
    namespace = pod["metadata"]["namespace"]
    for budget in storage.select(BUDGETS, namespace):
        spec = budget.get("spec") or {}
        covered = [item for item in storage.select(PODS, namespace) if matches(item, spec.get("selector") or {})]
        if pod["metadata"]["uid"] not in {item["metadata"]["uid"] for item in covered}:
            continue
        healthy = sum(_is_ready(item) for item in covered)
        if healthy - 1 < _wanted(spec, len(covered)):
            raise _too_many(budget["metadata"]["name"], healthy, _wanted(spec, len(covered)))


def _wanted(spec: Object, covered: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return covered - _share(spec["maxUnavailable"], covered)
    return _share(spec.get("minAvailable", 1), covered)


def _share(amount: int | str, covered: int) -> int:
    """A number, or a part in percent, rounded up."""
    return math.ceil(int(amount[:-1]) * covered / 100) if isinstance(amount, str) else amount


def _is_ready(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions: list[Object] = pod["status"].get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _too_many(name: str, healthy: int, wanted: int) -> Refused:
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently",
    }
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: Object = {"causes": [cause], "retryAfterSeconds": _RETRY_SECONDS}
    status = failure(429, "TooManyRequests", message, details)
    return Refused(status, (("retry-after", str(_RETRY_SECONDS)),))
