"""The security contexts of a pod and its containers (docs/design/attempt.md#security-contexts)."""

from __future__ import annotations

from typing import Any

from senro.domain.pipeline.targets import Pod

_RUNTIME_DEFAULT = {"type": "RuntimeDefault"}

ROOT_CAPABILITIES = ("DAC_OVERRIDE", "FOWNER")
"""Root needs them to read and chmod another user's files. `baseline` allows both."""


def pod_security(target: Pod, *, claims: bool) -> dict[str, Any]:
    """The securityContext of the pod: its user, and the group of its volumes.

    A pod that mounts claims has no fsGroup, since the kubelet would change the group of every file in the claim.
    """
    context: dict[str, Any] = {}
    if target.user is not None:
        context["runAsUser"] = target.user
        if target.group is not None:
            context["runAsGroup"] = target.group
    group = target.user if target.group is None else target.group
    if group is not None and not claims:
        # Without it the files of a Secret have root's group, and the user could not read them with mode 0440.
        context["fsGroup"] = group
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    if target.security == "restricted":
        context["runAsNonRoot"] = True
        context["seccompProfile"] = dict(_RUNTIME_DEFAULT)
    return context


def container_security(target: Pod) -> dict[str, Any]:
    """The securityContext of the step's container. With `baseline` the image and the runtime decide."""
    return _restricted() if target.security == "restricted" else _group(target)


def transfer_security(target: Pod) -> dict[str, Any]:
    """The securityContext of `senro-stage` and `senro-io`, which run as the step's user."""
    if target.security == "restricted":
        return _restricted()
    context = {**_least(), **_group(target)}
    if not target.user:  # None: most images run as root, and another user gains nothing from them
        context["capabilities"]["add"] = list(ROOT_CAPABILITIES)
    return context


def secret_file_mode(target: Pod, *, claims: bool) -> int:
    """The mode of a secret's file, which root owns: 0440 if its group is that of the target's user, else 0444."""
    return 0o444 if target.user is None or claims else 0o440


def _group(target: Pod) -> dict[str, Any]:
    """The group without a user, which containerd refuses for a pod's sandbox but not for a container."""
    return {"runAsGroup": target.group} if target.user is None and target.group is not None else {}


def _restricted() -> dict[str, Any]:
    return {**_least(), "runAsNonRoot": True}


def _least() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": dict(_RUNTIME_DEFAULT),
    }
