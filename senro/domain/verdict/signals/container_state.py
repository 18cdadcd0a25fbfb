"""What the statuses of a pod's containers prove."""

from __future__ import annotations

from senro.domain.kube.pod import ContainerStateTerminated, ContainerStatus, Pod, parse_time
from senro.domain.verdict.kinds import Note
from senro.domain.verdict.signals.start_error import START_REASONS

STATUS_UNKNOWN = "ContainerStatusUnknown"
"""An end that the kubelet invented: code 137, no times (docs/design/pod-states.md#row-33-containerstatusunknown)."""

RESTARTING = "RestartingAllContainers"
"""A restart rule that senro did not set restarts all containers
(docs/design/pod-states.md#row-19-restartingallcontainers)."""

OOM_KILLED = "OOMKilled"

_CRASH_LOOP = "CrashLoopBackOff"

_EPOCH_YEAR = 1970


def is_invented(terminated: ContainerStateTerminated) -> bool:
    """Whether a component invented this end, so that its code means nothing.

    See docs/design/pod-states.md#row-152-invented-exit-codes and
    docs/design/pod-states.md#row-148-null-and-epoch-times.
    """
    if terminated.exit_code is None or terminated.exit_code < 0 or terminated.reason == STATUS_UNKNOWN:
        return True
    if terminated.reason == "Unknown" and terminated.exit_code == 255:
        return True
    # A kubelet that saw the end writes both times. Without `finishedAt` a controller closed the status, as one does of
    # a spot node that was reclaimed; a code 0 there is no success.
    return not (terminated.started_at and terminated.finished_at) and terminated.reason not in START_REASONS


def end_of(status: ContainerStatus) -> ContainerStateTerminated | None:
    """How the step's container ended, None if it did not.

    If a restart rule restarts it, the end is the one before that (docs/design/pod-states.md#row-4-crashloopbackoff). An
    end that the kubelet invents to restart all containers is none.
    """
    state, before = status.state, status.last_state.terminated
    if state.waiting is not None and state.waiting.reason == _CRASH_LOOP and before is not None:
        return None if is_invented(before) else before
    return None if state.terminated is not None and state.terminated.reason == RESTARTING else state.terminated


def shows_run(status: ContainerStatus) -> bool:
    """Whether the status has an end which proves that the container's process ran.

    That is an end with a start after 1970, an end of an earlier instance other than a failed start
    (docs/design/pod-states.md#row-139-lost-after-running-or-never-started), or a restart of all containers, which only
    affects those that ran (docs/design/pod-states.md#row-34-restartingallcontainers-of-an-end).
    """
    before, terminated = status.last_state.terminated, status.state.terminated
    if before is not None and before.reason not in START_REASONS:
        return True
    if terminated is None:
        return False
    started = parse_time(terminated.started_at)
    return terminated.reason == RESTARTING or (started is not None and started.year > _EPOCH_YEAR)


def has_container(status: ContainerStatus) -> bool:
    """Whether the runtime created the container, so that it may have run between two polls."""
    terminated = status.state.terminated
    return bool(status.container_id or (terminated is not None and terminated.container_id))


def failed_init(pod: Pod) -> tuple[str, ContainerStateTerminated] | None:
    """Name and end of the init container whose failure keeps the step from starting, None if none failed.

    A sidecar's end is no failure (docs/design/pod-states.md#row-161-sidecars), nor is an invented Completed
    (docs/design/pod-states.md#row-28-completed); OOMKilled is one, whatever the code
    (docs/design/pod-states.md#row-162-init-container-failure).
    """
    for status in own_inits(pod):
        terminated = status.state.terminated
        if terminated is not None and (terminated.exit_code != 0 or terminated.reason == OOM_KILLED):
            return status.name, terminated
    return None


def own_inits(pod: Pod) -> tuple[ContainerStatus, ...]:
    """The statuses of the init containers that end before the step starts: all but sidecars, in the pod's order."""
    if not pod.status.init_container_statuses:
        return ()
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return tuple(status for status in pod.status.init_container_statuses if status.name not in sidecars)


def exit_notes(pod: Pod, terminated: ContainerStateTerminated, *, events_read: bool) -> tuple[Note, ...]:
    """What a person should know besides the exit code."""
    if terminated.reason == OOM_KILLED:
        return (Note.OOM,)
    if terminated.exit_code == 137:
        return (Note.SIGKILL,)
    if terminated.exit_code == 0 and not events_read and hides_eviction(pod):
        return (Note.DISRUPTION_UNCHECKED,)
    return ()


def hides_eviction(pod: Pod) -> bool:
    """Whether an exit code 0 of this pod can hide an eviction (recording `evicted-kubelet-trap-zero`).

    Only an eviction for exceeding a limit sets no DisruptionTarget
    (docs/design/pod-states.md#row-69-evicted-while-running), and only a pod whose containers all end with 0 becomes
    Succeeded, without a reason. `senro-io` ends with another code.
    """
    if len(pod.spec.containers) > 1:
        return False
    for container in pod.spec.containers:
        if "ephemeral-storage" in container.resources.limits:
            return True
    return any(volume.empty_dir is not None and volume.empty_dir.size_limit for volume in pod.spec.volumes)


def last_words(pod: Pod, status: ContainerStatus) -> str:
    """The most specific message of the cluster: of the container's end, else of its wait, else of the pod."""
    state = status.state
    ended = (state.terminated.message or state.terminated.reason) if state.terminated is not None else ""
    return ended or (state.waiting.message if state.waiting is not None else "") or pod.status.message
