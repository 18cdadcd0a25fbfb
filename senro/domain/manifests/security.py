"""Whom the containers of a pod run as, and what they may.

The step's container gets what was asked for and nothing that the Pod Security Standard `baseline` refuses. The
containers that carry workspaces get the least with which they can do it
(docs/design/attempt.md#security-contexts).
"""

from __future__ import annotations

from typing import Any

from senro.domain.pipeline.targets import Pod

_RUNTIME_DEFAULT = {"type": "RuntimeDefault"}

ROOT_CAPABILITIES = ("DAC_OVERRIDE", "FOWNER")
"""Root without them can neither read nor chmod what another user wrote. `baseline` allows both."""


def pod_security(target: Pod, *, claims: bool) -> dict[str, Any]:
    """The pod's securityContext: who everything runs as, and the group of its volumes.

    Where the pod mounts claims its volumes are given no group: the kubelet would give it every file of the claim, and
    whose those are is not senro's to change. An emptyDir is open to everybody without one.
    """
    context: dict[str, Any] = {}
    if target.user is not None:
        context["runAsUser"] = target.user
        if target.group is not None:
            context["runAsGroup"] = target.group
    group = target.user if target.group is None else target.group
    if group is not None and not claims:
        # Without it a Secret's files are root's group's, and the mode 0440 below would lock a declared user out.
        context["fsGroup"] = group
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    if target.security == "restricted":
        context["runAsNonRoot"] = True
        context["seccompProfile"] = dict(_RUNTIME_DEFAULT)
    return context


def container_security(target: Pod) -> dict[str, Any]:
    """The step container's securityContext; under `baseline` the image and the runtime decide."""
    return _restricted() if target.security == "restricted" else _group(target)


def transfer_security(target: Pod) -> dict[str, Any]:
    """The securityContext of `senro-stage` and `senro-io`, which run as the step's own user."""
    if target.security == "restricted":
        return _restricted()
    context = {**_least(), **_group(target)}
    if not target.user:  # None: most images run as root, and a user that is none gains nothing from the two
        context["capabilities"]["add"] = list(ROOT_CAPABILITIES)
    return context


def secret_file_mode(target: Pod, *, claims: bool) -> int:
    """The mode of a secret's file: 0440 where the declared user owns it by its group, else readable by all.

    The files are root's. A user that only the image knows, or whose volumes have no group since there are claims among
    them, could not read them otherwise; nobody else is in the pod.
    """
    return 0o444 if target.user is None or claims else 0o440


def _group(target: Pod) -> dict[str, Any]:
    """A group without a user: for the pod's sandbox containerd refuses that, for a container the image has the user."""
    return {"runAsGroup": target.group} if target.user is None and target.group is not None else {}


def _restricted() -> dict[str, Any]:
    return {**_least(), "runAsNonRoot": True}


def _least() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": dict(_RUNTIME_DEFAULT),
    }
