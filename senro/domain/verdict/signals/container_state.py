"""What a pod's fields prove, and what they only seem to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.domain.kube.pod import parse_time
from senro.domain.verdict.kinds import Note
from senro.domain.verdict.signals.start_error import START_REASONS

if TYPE_CHECKING:
    from senro.domain.kube.pod import ContainerStateTerminated, ContainerStatus, Pod

STATUS_UNKNOWN = "ContainerStatusUnknown"
"""The kubelet found no real end and made one up: 137, no times (docs/design/pod-states.md#row-33-containerstatusunknown
and docs/design/pod-states.md#row-138-137-of-a-container-that-never-started)."""

RESTARTING = "RestartingAllContainers"
"""A restart rule that is not senro's takes all containers away to run them again
(docs/design/pod-states.md#row-19-restartingallcontainers)."""

OOM_KILLED = "OOMKilled"

_CRASH_LOOP = "CrashLoopBackOff"

_EPOCH_YEAR = 1970


def is_invented(terminated: ContainerStateTerminated) -> bool:
    """Whether a component made this end up, so that its code means nothing.

    See docs/design/pod-states.md#row-152-invented-exit-codes and
    docs/design/pod-states.md#row-148-null-and-epoch-times.

    `startedAt` null is a made-up state; StartError is told apart by its reason, and starts in 1970. Reason Unknown
    with 255 is containerd after a restart or a reboot; -1 is CRI-O where the code was not recorded.
    """
    if terminated.exit_code is None or terminated.exit_code < 0 or terminated.reason == STATUS_UNKNOWN:
        return True
    if terminated.reason == "Unknown" and terminated.exit_code == 255:
        return True
    return not terminated.started_at and terminated.reason not in START_REASONS


def end_of(status: ContainerStatus) -> ContainerStateTerminated | None:
    """How the step's container ended, None where it did not.

    Where somebody's restart rule wants it again, the end before that is the one that was asked for
    (docs/design/pod-states.md#row-4-crashloopbackoff and docs/design/pod-states.md#row-163-container-restart-rules); an
    end that the kubelet makes up to restart all containers is none.
    """
    state, before = status.state, status.last_state.terminated
    if state.waiting is not None and state.waiting.reason == _CRASH_LOOP and before is not None:
        return None if is_invented(before) else before
    return None if state.terminated is not None and state.terminated.reason == RESTARTING else state.terminated


def shows_run(status: ContainerStatus) -> bool:
    """Whether an end in the status proves that the container's process ran before.

    An end proves it by a start after 1970; one of a previous instance by being there, unless that could not be started
    (docs/design/pod-states.md#row-139-lost-after-running-or-never-started and
    docs/design/pod-states.md#row-148-null-and-epoch-times). A restart of all containers takes only what ran
    (docs/design/pod-states.md#row-34-restartingallcontainers-of-an-end).
    """
    before, terminated = status.last_state.terminated, status.state.terminated
    if before is not None and before.reason not in START_REASONS:
        return True
    if terminated is None:
        return False
    started = parse_time(terminated.started_at)
    return terminated.reason == RESTARTING or (started is not None and started.year > _EPOCH_YEAR)


def has_container(status: ContainerStatus) -> bool:
    """Whether the runtime created the container, which may have run since, unseen."""
    terminated = status.state.terminated
    return bool(status.container_id or (terminated is not None and terminated.container_id))


def failed_init(pod: Pod) -> tuple[str, ContainerStateTerminated] | None:
    """Name and end of the init container that failed and so keeps the step from ever starting, None where none did.

    Sidecars among them may end as they like (docs/design/pod-states.md#row-161-sidecars). A synthetic Completed is no
    failure (docs/design/pod-states.md#row-28-completed). The kubelet takes OOMKilled for a failure, whatever the code
    (docs/design/pod-states.md#row-162-init-container-failure).
    """
    for status in own_inits(pod):
        terminated = status.state.terminated
        if terminated is not None and (terminated.exit_code != 0 or terminated.reason == OOM_KILLED):
            return status.name, terminated
    return None


def own_inits(pod: Pod) -> tuple[ContainerStatus, ...]:
    """The init containers that must end before the step starts: all but sidecars, in the pod's order."""
    if not pod.status.init_container_statuses:
        return ()
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return tuple(status for status in pod.status.init_container_statuses if status.name not in sidecars)


def exit_notes(pod: Pod, terminated: ContainerStateTerminated, *, events_read: bool) -> tuple[Note, ...]:
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

    Evictions for an own limit alone set no DisruptionTarget (docs/design/pod-states.md#row-69-evicted-while-running),
    and a pod whose every container ends with 0 becomes Succeeded, without a reason. A second container that ends
    otherwise, as senro-io does, keeps it.
    """
    if len(pod.spec.containers) > 1:
        return False
    for container in pod.spec.containers:
        if "ephemeral-storage" in container.resources.limits:
            return True
    return any(volume.empty_dir is not None and volume.empty_dir.size_limit for volume in pod.spec.volumes)


def last_words(pod: Pod, status: ContainerStatus) -> str:
    """The most telling sentence that the cluster left: of the container's end, its waiting, or the pod's."""
    state = status.state
    ended = (state.terminated.message or state.terminated.reason) if state.terminated is not None else ""
    return ended or (state.waiting.message if state.waiting is not None else "") or pod.status.message
