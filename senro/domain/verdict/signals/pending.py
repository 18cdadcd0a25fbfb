"""What a step that does not run yet waits for (docs/design/verdicts.md#row-14-the-step-does-not-run-yet)."""

from __future__ import annotations

from collections.abc import Container

from senro.domain.kube.pod import ContainerStateWaiting, ContainerStatus, Pod
from senro.domain.verdict.answers import Answer, Pending
from senro.domain.verdict.kind_table import PENDING_KINDS
from senro.domain.verdict.kinds import InfraKind, PendingKind
from senro.domain.verdict.signals.container_state import own_inits
from senro.domain.verdict.signals.image_pull import pull_kind, pull_words
from senro.domain.verdict.signals.known_states import Where, pending_kinds
from senro.domain.verdict.signals.start_error import names_command, start_failure

_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})

_KINDS = pending_kinds(Where.WAITING)

_CREATE_FAILURES = frozenset({"CreateContainerError", "RunContainerError"})

_UNSCHEDULED = pending_kinds(Where.CONDITION_REASON)


def pending(pod: Pod, *, step: str, stage: str, before: Answer) -> Pending:
    """What the step waits for: the first init container that has not ended, else the step's container.

    `step` and `stage` name senro's containers; `before` is the answer to the previous observation. Other containers do
    not matter, since the step starts without them (recording `injected-sidecars`). An init container that senro did not
    ask for is named, and its failures are never `permanent`.
    """
    statuses = own_inits(pod)
    for status in statuses:
        if status.state.terminated is None:
            return _of_init(status, step=step, stage=stage, before=before)
    status_of_step = pod.container(step)
    if status_of_step is not None:
        return _of_container(status_of_step, ours={step, stage}, before=before)
    return _of_scheduling(pod)


def _of_scheduling(pod: Pod) -> Pending:
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        kind = _UNSCHEDULED.get(scheduled.reason, PendingKind.SCHEDULING)
        return Pending(kind, message=scheduled.message)
    return Pending(PendingKind.CREATING if pod.spec.node_name else PendingKind.SCHEDULING)


def _of_init(status: ContainerStatus, *, step: str, stage: str, before: Answer) -> Pending:
    if status.state.running is not None:
        staging = status.name == stage
        return Pending(PendingKind.STAGING if staging else PendingKind.INITIALIZING, status.name)
    return _of_container(status, ours={step, stage}, before=before)


def _of_container(status: ContainerStatus, *, ours: Container[str], before: Answer) -> Pending:
    waiting = status.state.waiting
    if waiting is None:
        return Pending(PendingKind.CREATING, status.name)
    if waiting.reason in _PULLING:
        kind, message = _of_pull(before, status.name, waiting)
    else:
        kind, message = _of_reason(waiting)
    permanent = PENDING_KINDS[kind].permanent or (kind is PendingKind.CONFIG and names_command(message))
    return Pending(kind, status.name, message, permanent=permanent and status.name in ours)


def _of_pull(before: Answer, name: str, waiting: ContainerStateWaiting) -> tuple[PendingKind, str]:
    """Kind and message of a failed pull. A back-off without a cause has the cause that was seen before it."""
    words = pull_words(waiting.message)
    if not words and isinstance(before, Pending) and before.container == name and before.kind in _OF_IMAGES:
        return before.kind, before.message
    return pull_kind(waiting.message), words or waiting.message or waiting.reason


_OF_IMAGES = frozenset(kind for kind in PendingKind if kind.startswith("image-")) | {PendingKind.RUNTIME}


def _of_reason(waiting: ContainerStateWaiting) -> tuple[PendingKind, str]:
    """Kind and message by the table of known states; an unknown reason is a failure of the node, quoted verbatim."""
    kind = _KINDS.get(waiting.reason)
    if kind is PendingKind.CREATING:
        return kind, waiting.message
    if kind is not None:
        return kind, waiting.message or waiting.reason
    if waiting.reason in _CREATE_FAILURES:
        return _create_failure(waiting.message), waiting.message or waiting.reason
    has_message = waiting.message and waiting.message != waiting.reason
    return PendingKind.RUNTIME, f"{waiting.reason}: {waiting.message}" if has_message else waiting.reason


def _create_failure(message: str) -> PendingKind:
    if names_command(message):
        # CRI-O repeats the start of a missing program for ever
        # (docs/design/pod-states.md#row-153-missing-program-on-containerd-and-cri-o).
        return PendingKind.CONFIG
    # docs/design/pod-states.md#row-26-image-volume-tokens
    of_volume = message.startswith(("ImageVolumeMountFailed", "RROUnsupported"))
    mounting = start_failure(message) is InfraKind.VOLUME
    return PendingKind.VOLUME if of_volume or mounting else PendingKind.RUNTIME
