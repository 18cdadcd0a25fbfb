"""What may become of an object that is there already."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.status import PODS, SECRETS, Cause, invalid
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


def refuse_pod_change(current: Object, wanted: Object) -> None:
    """422 for a change of a pod's spec that may not be made (docs/design/api-rules.md#changes-of-a-pod-spec)."""
    before, after = _frozen(current["spec"]), _frozen(wanted.get("spec") or {})
    name = current["metadata"]["name"]
    deadline, was = (
        (wanted.get("spec") or {}).get("activeDeadlineSeconds"),
        current["spec"].get("activeDeadlineSeconds"),
    )
    if was is not None and (deadline is None or deadline > was):
        words = f"must be less than or equal to previous value {was}" if deadline is not None else (
            f"must not update from a positive integer to nil value {was}")  # fmt: skip
        raise invalid(PODS.kind, name, [Cause.invalid("spec.activeDeadlineSeconds", str(deadline).lower(), words)])
    tolerations = (wanted.get("spec") or {}).get("tolerations") or []
    dropped = any(item not in tolerations for item in current["spec"].get("tolerations") or [])
    if before != after or dropped:
        cause = Cause.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
            "negative)",
        )
        raise invalid(PODS.kind, name, [cause])


def _frozen(spec: Object) -> Object:
    """The spec without what may change."""
    frozen = {key: value for key, value in spec.items() if key not in {"activeDeadlineSeconds", "tolerations"}}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            frozen[kind] = [{**container, "image": ""} for container in spec[kind]]
    grace = spec.get("terminationGracePeriodSeconds", 30)
    frozen["terminationGracePeriodSeconds"] = 1 if grace < 0 else grace
    return frozen
