"""The closed sets of words that answers are made of, and what each kind of Infra means for a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InfraKind(StrEnum):
    """What failed a step other than its own command. `kind_info(kind)` says more."""

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


@dataclass(frozen=True, slots=True)
class KindInfo:
    """A kind of Infra, told to a person and to the retry policy.

    `may_have_run`: can the command have run at all under this kind. `repeatable`: may another try, unchanged, go
    better, so that `retry.on_infra` repeats it. `least_wait`: seconds that a repetition waits at least, 0 where it may
    follow at once. `hint`: what a person can do, one sentence.
    """

    may_have_run: bool
    repeatable: bool
    hint: str
    least_wait: float = 0.0


# A repetition waits for what must change first: the scheduler and the cluster's caches see a node's or a pod's new
# state within seconds (5 to 15), a drained or full cluster needs longer (30), and a registry counts its pulls by the
# minute at least (60). What was removed without grace may leave its processes alive for some seconds, until the kubelet
# hears of it and has killed them (docs/design/api-rules.md#grace-of-a-deletion).
_KIND_INFO: dict[InfraKind, KindInfo] = {
    InfraKind.IMAGE_NOT_FOUND: KindInfo(
        may_have_run=False, repeatable=False, hint="Check the image's name and digest in its registry."
    ),
    InfraKind.IMAGE_DENIED: KindInfo(
        may_have_run=False, repeatable=False, hint="Give the pod an imagePullSecret that may pull this image."
    ),
    InfraKind.IMAGE_INVALID: KindInfo(
        may_have_run=False, repeatable=False, hint="Correct the image reference: registry/name@sha256:digest."
    ),
    InfraKind.IMAGE_ABSENT: KindInfo(
        may_have_run=False, repeatable=False, hint="Load the image onto the node, or let it be pulled."
    ),
    InfraKind.IMAGE_PLATFORM: KindInfo(
        may_have_run=False, repeatable=False, hint="Use an image that is built for the node's platform."
    ),
    InfraKind.IMAGE_LIMITED: KindInfo(
        may_have_run=False,
        repeatable=True,
        hint="Pull with credentials or from a mirror: the registry limits.",
        least_wait=60,
    ),
    InfraKind.IMAGE_UNREACHABLE: KindInfo(
        may_have_run=False, repeatable=True, hint="Check that the nodes reach the image's registry.", least_wait=30
    ),
    InfraKind.CONFIG: KindInfo(
        may_have_run=False, repeatable=False, hint="Create or correct what the container's configuration refers to."
    ),
    InfraKind.VOLUME: KindInfo(
        may_have_run=False, repeatable=False, hint="Check the mounts: source, path in the image, claim and its node."
    ),
    InfraKind.UNSCHEDULABLE: KindInfo(
        may_have_run=False, repeatable=True, hint="Ask for less, or give the cluster a node that fits.", least_wait=30
    ),
    InfraKind.START_TIMEOUT: KindInfo(
        may_have_run=False,
        repeatable=True,
        hint="Look at the pod's Events, or raise the target's start timeout.",
        least_wait=10,
    ),
    InfraKind.REJECTED: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="The node refused the pod: see its reason; another node may take it.",
        least_wait=5,
    ),
    InfraKind.EVICTED: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="The node was drained or short of a resource; try again.",
        least_wait=1,
    ),
    InfraKind.RESOURCE_LIMIT: KindInfo(
        may_have_run=True, repeatable=False, hint="The step outgrew its own limit: raise it, or write less."
    ),
    InfraKind.PREEMPTED: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="A pod of higher priority took the place; raise the priority.",
        least_wait=5,
    ),
    InfraKind.DELETED: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="Somebody deleted the pod; find out who in the audit log.",
        least_wait=1,
    ),
    InfraKind.VANISHED: KindInfo(
        may_have_run=True, repeatable=True, hint="The pod was removed without grace; find out by whom.", least_wait=5
    ),
    InfraKind.NODE_LOST: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="The node fell silent or lost the container: look at the node.",
        least_wait=10,
    ),
    InfraKind.RUNTIME: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="The node's container runtime failed: see its words, try another node.",
        least_wait=10,
    ),
    InfraKind.STAGE_FAILED: KindInfo(
        may_have_run=False, repeatable=True, hint="senro-stage failed before the step: read its log.", least_wait=5
    ),
    InfraKind.INIT_FAILED: KindInfo(
        may_have_run=False,
        repeatable=True,
        hint="An init container that is not senro's failed: read its log.",
        least_wait=5,
    ),
    InfraKind.TRANSFER: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="A workspace did not cross: check network and space in the volume.",
        least_wait=5,
    ),
    InfraKind.APISERVER: KindInfo(
        may_have_run=True,
        repeatable=True,
        hint="The apiserver did not answer for long: check the control plane.",
        least_wait=15,
    ),
    InfraKind.ADMISSION: KindInfo(
        may_have_run=False, repeatable=False, hint="The cluster's policy refuses this pod: change what it names."
    ),
    InfraKind.ADMISSION_TRANSIENT: KindInfo(
        may_have_run=False, repeatable=True, hint="An admission webhook did not answer; try again.", least_wait=5
    ),
    InfraKind.QUOTA: KindInfo(
        may_have_run=False,
        repeatable=True,
        hint="The namespace's quota is used up: free some, or raise it.",
        least_wait=30,
    ),
    InfraKind.UNAUTHORIZED: KindInfo(
        may_have_run=True, repeatable=False, hint="The credential is not accepted: renew SENRO_K8S_TOKEN_FILE."
    ),
    InfraKind.FORBIDDEN: KindInfo(
        may_have_run=True, repeatable=False, hint="Grant the identity the verb that the message names."
    ),
    InfraKind.DEADLINE: KindInfo(
        may_have_run=True,
        repeatable=False,
        hint="activeDeadlineSeconds of somebody else ended the pod: find who set it.",
    ),
    InfraKind.CLAIM: KindInfo(
        may_have_run=False,
        repeatable=True,
        hint="See who holds the claim (kubectl get leases), or wait longer: max_lifetime= on k8s.Pod.",
        least_wait=1,
    ),
}


def kind_info(kind: InfraKind) -> KindInfo:
    """What `kind` means: the table above."""
    return _KIND_INFO[kind]
