"""What the deletion of an attempt's pod proves: that no process of the step runs any more, or that one may."""

from __future__ import annotations

from typing import Literal

from senro.domain.kube.pod import Pod
from senro.domain.transfer.containers import STAGE_CONTAINER
from senro.domain.verdict import Answer, Exited, Infra, InfraKind

Deletion = Literal["deleted", "forced", "already_gone", "unconfirmed"]
"""How the deletion of a pod ended.

- `deleted`: the apiserver accepted it and the pod was then seen gone, or no pod was ever created.
- `forced`: the pod was deleted without a grace period, so its processes may live some seconds longer.
- `already_gone`: another client had deleted the pod, which proves nothing about its processes.
- `unconfirmed`: the pod may still exist.
"""

ENDED_PHASES = frozenset({"Succeeded", "Failed"})
"""The phases of a pod whose containers have all ended."""


def may_still_start(pod: Pod | None) -> bool:
    """Whether the step's container may start later in a pod that was not seen gone.

    `pod` is the pod as it was last polled, None if it did not exist. A pod in a final phase starts nothing. Neither
    does one with a `senro-stage` container that has not ended with 0: only a complete upload lets it end so.
    """
    if pod is None or pod.status.phase in ENDED_PHASES:
        return False
    if STAGE_CONTAINER not in {container.name for container in pod.spec.init_containers}:
        return True
    status = pod.init_container(STAGE_CONTAINER)
    ended = status.state.terminated if status is not None else None
    return ended is not None and ended.exit_code == 0


def claims_are_unused(deletion: Deletion, answer: Answer | None, pod: Pod | None) -> bool:
    """Whether it is certain that no process of the pod can use its PersistentVolumeClaims any more.

    `answer` is the last verdict, None if the pod was never observed; `pod` is the pod as it was last seen existing.
    An unreachable node may still run the containers of a pod whose object is gone. So may any node after a deletion
    without a grace period, until its kubelet notices. A pod whose containers had ended before has no process left.
    """
    if deletion == "unconfirmed" or (isinstance(answer, Infra) and answer.may_be_alive):
        return False
    if deletion == "deleted" or (pod is not None and pod.status.phase in ENDED_PHASES):
        return True
    if deletion == "forced":
        return False
    return isinstance(answer, Exited) or (isinstance(answer, Infra) and answer.kind is not InfraKind.VANISHED)
