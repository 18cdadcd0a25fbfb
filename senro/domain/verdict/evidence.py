"""What a pod's fields prove, and what they only seem to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.domain.pod import parse_time
from senro.domain.verdict.kinds import DidRun, Note
from senro.domain.verdict.starts import START_REASONS

if TYPE_CHECKING:
    from senro.domain.pod import ContainerStatus, Pod, Terminated
    from senro.domain.verdict.memory import Memory

STATUS_UNKNOWN = "ContainerStatusUnknown"
"""The kubelet found no real end and made one up: 137, no times (facts/pod-states.json rows 33 and 138)."""

OOM_KILLED = "OOMKilled"

_EPOCH_YEAR = 1970


def is_invented(terminated: Terminated) -> bool:
    """Whether a component made this end up, so that its code means nothing (facts rows 33, 35, 148, 152).

    `startedAt` null is a made-up state; StartError is told apart by its reason, and starts in 1970. Reason Unknown
    with 255 is containerd after a restart or a reboot; -1 is CRI-O where the code was not recorded.
    """
    if terminated.exit_code is None or terminated.exit_code < 0 or terminated.reason == STATUS_UNKNOWN:
        return True
    if terminated.reason == "Unknown" and terminated.exit_code == 255:
        return True
    return not terminated.started_at and terminated.reason not in START_REASONS


def shows_run(status: ContainerStatus) -> bool:
    """Whether the status proves that the container's process ran, now or before.

    An end proves it by a start after 1970; one of a previous instance by being there (facts rows 139 and 148).
    """
    if status.state.running is not None or status.last_state.terminated is not None:
        return True
    terminated = status.state.terminated
    started = parse_time(terminated.started_at) if terminated is not None else None
    return started is not None and started.year > _EPOCH_YEAR


def has_container(status: ContainerStatus) -> bool:
    """Whether the runtime created the container, which may have run since, unseen."""
    terminated = status.state.terminated
    return bool(status.container_id or (terminated is not None and terminated.container_id))


def did_run(memory: Memory, status: ContainerStatus) -> DidRun:
    """May the command have run? Seen running: yes. Only waiting, or never any status: no. Else maybe."""
    if memory.ran:
        return DidRun.YES
    if memory.contained or (status.state.terminated is not None and not memory.waited):
        return DidRun.MAYBE
    return DidRun.NO


def node_is_silent(pod: Pod) -> bool:
    """Whether the pod shows that its node stopped reporting (recording `node-lost`, facts row 84).

    The node controller then sets Ready to False, gives no reason, and leaves ContainersReady as it was.
    """
    ready, containers = pod.condition("Ready"), pod.condition("ContainersReady")
    if ready is None or containers is None:
        return False
    return ready.status == "False" and not ready.reason and containers.status == "True"


def failed_init(pod: Pod) -> tuple[str, Terminated] | None:
    """Name and end of the init container that failed and so keeps the step from ever starting, None where none did.

    Sidecars among them may end as they like (facts row 161). A synthetic Completed is no failure (facts row 28). The
    kubelet takes OOMKilled for a failure, whatever the code (facts row 162).
    """
    for status in own_inits(pod):
        terminated = status.state.terminated
        if terminated is not None and (terminated.exit_code != 0 or terminated.reason == OOM_KILLED):
            return status.name, terminated
    return None


def own_inits(pod: Pod) -> tuple[ContainerStatus, ...]:
    """The init containers that must end before the step starts: all but sidecars, in the pod's order."""
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return tuple(status for status in pod.status.init_container_statuses if status.name not in sidecars)


def exit_notes(pod: Pod, terminated: Terminated, *, events_read: bool) -> tuple[Note, ...]:
    """What a person should know beside the exit code."""
    if terminated.reason == OOM_KILLED:
        return (Note.OOM,)
    if terminated.exit_code == 137:
        return (Note.SIGKILL,)
    if terminated.exit_code == 0 and not events_read and hides_eviction(pod):
        return (Note.DISRUPTION_UNCHECKED,)
    return ()


def hides_eviction(pod: Pod) -> bool:
    """Whether a 0 of this pod can be an eviction without a trace (recording `evicted-kubelet-trap-zero`).

    Evictions for an own limit alone set no DisruptionTarget (facts row 69), and a pod whose every container ends
    with 0 becomes Succeeded, without a reason. A second container that ends otherwise, as senro-io does, keeps it.
    """
    containers = pod.spec.containers
    limited = any("ephemeral-storage" in container.resources.limits for container in containers)
    bounded = any(volume.empty_dir is not None and volume.empty_dir.size_limit for volume in pod.spec.volumes)
    return len(containers) <= 1 and (limited or bounded)


def last_words(pod: Pod, status: ContainerStatus) -> str:
    """The most telling sentence that the cluster left: of the container's end, its waiting, or the pod's."""
    state = status.state
    candidates = (
        state.terminated.message if state.terminated is not None else "",
        state.terminated.reason if state.terminated is not None else "",
        state.waiting.message if state.waiting is not None else "",
        pod.status.message,
    )
    return next((words for words in candidates if words), "")
