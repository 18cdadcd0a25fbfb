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
    GATED = "gated"
    UNSCHEDULABLE = "unschedulable"
    CREATING = "creating"
    STAGING = "staging"
    INITIALIZING = "initializing"
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
    SIGKILL = "sigkill"
    START_ERROR = "start-error"
    TIE = "tie"
    DISRUPTION_UNCHECKED = "disruption-unchecked"
    LEASE_LOST = "lease-lost"
