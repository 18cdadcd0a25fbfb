"""The values that answers consist of. `kind_table` says what each means."""

from __future__ import annotations

from enum import StrEnum


class InfraKind(StrEnum):
    """What failed a step, other than its own command."""

    IMAGE_NOT_FOUND = "image-not-found"
    IMAGE_DENIED = "image-denied"
    IMAGE_INVALID = "image-invalid"
    IMAGE_ABSENT = "image-absent"
    IMAGE_PLATFORM = "image-platform"
    IMAGE_LIMITED = "image-limited"
    IMAGE_UNREACHABLE = "image-unreachable"
    CONFIG = "config"
    VOLUME = "volume"
    UNSCHEDULABLE = "unschedulable"
    START_TIMEOUT = "start-timeout"
    REJECTED = "rejected"
    EVICTED = "evicted"
    RESOURCE_LIMIT = "resource-limit"
    PREEMPTED = "preempted"
    DELETED = "deleted"
    VANISHED = "vanished"
    NODE_LOST = "node-lost"
    RUNTIME = "runtime"
    STAGE_FAILED = "stage-failed"
    INIT_FAILED = "init-failed"
    TRANSFER = "transfer"
    APISERVER = "apiserver"
    ADMISSION = "admission"
    ADMISSION_TRANSIENT = "admission-transient"
    QUOTA = "quota"
    POD_SECURITY = "pod-security"
    LIMIT_RANGE = "limit-range"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    DEADLINE = "deadline"
    CLAIM = "claim"


class PendingKind(StrEnum):
    """What a step that does not run yet waits for."""

    SCHEDULING = "scheduling"
    """The scheduler has not placed the pod yet, and reports no problem."""
    GATED = "gated"
    """A scheduling gate is closed: a queue such as Kueue decides when the pod starts."""
    UNSCHEDULABLE = "unschedulable"
    """The scheduler finds no node for the pod."""
    CREATING = "creating"
    """The kubelet prepares sandbox, volumes, network or image, and reports no problem
    (docs/design/pod-states.md#row-1-containercreating)."""
    STAGING = "staging"
    """`senro-stage` runs: the upload of the workspaces goes on."""
    INITIALIZING = "initializing"
    """An init container runs that senro did not ask for."""
    IMAGE_NOT_FOUND = "image-not-found"
    IMAGE_DENIED = "image-denied"
    IMAGE_INVALID = "image-invalid"
    IMAGE_ABSENT = "image-absent"
    IMAGE_PLATFORM = "image-platform"
    IMAGE_LIMITED = "image-limited"
    IMAGE_UNREACHABLE = "image-unreachable"
    CONFIG = "config"
    VOLUME = "volume"
    RUNTIME = "runtime"


class DidRun(StrEnum):
    """Whether the command of the step ran, wholly or in part."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


class Note(StrEnum):
    """What a person should know besides an exit code or a kind (docs/design/verdicts.md#notes)."""

    OOM = "oom"
    """The kernel killed a process of the container for memory: the command, or a child of it."""
    SIGKILL = "sigkill"
    """Exit code 137 without the reason OOMKilled: the cluster does not say who sent the SIGKILL."""
    START_ERROR = "start-error"
    """The runtime could not start the command: no such file, no such directory, no permission."""
    TIE = "tie"
    """One poll showed the end and the disruption, and they are too close for the clocks of two machines to order."""
    DISRUPTION_UNCHECKED = "disruption-unchecked"
    """An eviction for exceeding a limit could have left no trace in the pod, and Events were not read."""
    LEASE_LOST = "lease-lost"
    """Another step may have mounted a claim of this one while it ran: its Lease was not renewed in time."""
