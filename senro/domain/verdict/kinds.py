"""The closed sets of words that answers are made of. `kind_table` has one row for each."""

from __future__ import annotations

from enum import StrEnum


class InfraKind(StrEnum):
    """What failed a step other than its own command."""

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
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    DEADLINE = "deadline"
    CLAIM = "claim"


class PendingKind(StrEnum):
    """What a step waits for. Those with the name of an `InfraKind` become it when patience ends."""

    SCHEDULING = "scheduling"
    """No node yet, and no complaint of the scheduler."""
    GATED = "gated"
    """A scheduling gate is closed: a queue such as Kueue decides."""
    UNSCHEDULABLE = "unschedulable"
    """The scheduler finds no node."""
    CREATING = "creating"
    """The node prepares sandbox, volumes, network or image, and says no more
    (docs/design/pod-states.md#row-1-containercreating)."""
    STAGING = "staging"
    """`senro-stage` runs and waits for its workspaces."""
    INITIALIZING = "initializing"
    """An init container that is not senro's runs."""
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
    """Whether the step's command may have run, wholly or in part."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


class Note(StrEnum):
    """What a person should know beside a code or a kind."""

    OOM = "oom"
    """Something in the container was killed for memory; the command's code says whether it was the command."""
    SIGKILL = "sigkill"
    """137 without OOMKilled: a SIGKILL that the cluster did not explain."""
    START_ERROR = "start-error"
    """The runtime could not start the command: a missing file, a wrong directory, no permission."""
    TIE = "tie"
    """Finish and disruption were first seen together, nearer than two machines' clocks can tell apart."""
    DISRUPTION_UNCHECKED = "disruption-unchecked"
    """An eviction for an own limit would have left no trace, and Events could not be read."""
    LEASE_LOST = "lease-lost"
    """Another step may have had a claim of this one while it ran: its lease could not be renewed in time."""
