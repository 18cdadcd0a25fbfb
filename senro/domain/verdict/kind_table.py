"""One row for each kind and each note: what it means to a person, to the retry policy and to the clocks of a start."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf

from senro.domain.verdict.kinds import InfraKind, Note, PendingKind

GATED_LIMIT = 86_400.0
"""Seconds that a scheduling gate may stay closed: as long as a pod whose step has no timeout may live."""

MISSING_SOURCE = re.compile(r'(secret|configmap) "[^"]*" not found\Z')
"""The end of a FailedMount whose Secret or ConfigMap does not exist (docs/design/pod-states.md#row-120-failedmount)."""


@dataclass(frozen=True, slots=True)
class InfraInfo:
    """What a kind of `Infra` means.

    `sentence`: what happened, to follow "The cluster failed it, not its command: ".
    `hint`: what a person can do, one sentence.
    `least_wait`: seconds that a repetition waits at least; 0 if another try, unchanged, would end the same way.
    `see_node`: whether the node's description says more.
    """

    sentence: str
    hint: str
    least_wait: float = 0.0
    see_node: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether `retry.on_infra` repeats the step."""
        return self.least_wait > 0


@dataclass(frozen=True, slots=True)
class PendingInfo:
    """What a kind of `Pending` means.

    `sentence`: what the step waits for, to follow "It has not started: ".
    `becomes`: what it is called once senro gives up; None if senro never does, since the wait has a bound of its own.
    `hint`: what a person can do meanwhile, empty if it is the hint of `becomes`.
    `grace`: seconds of the same wait after which senro gives up, whatever remains of the start timeout.
    `in_start`: whether the wait counts towards the start timeout.
    `permanent`: whether no waiting can help (docs/design/verdicts.md#permanent).
    `missing`: matches the message if an object is not found that somebody may be creating.
    `read_events`: whether Events may name the cause, so that the coordinator reads them.
    `see_events`: whether a person should read the Events.
    """

    sentence: str
    becomes: InfraKind | None
    hint: str = ""
    grace: float = inf
    in_start: bool = True
    permanent: bool = False
    missing: re.Pattern[str] | None = None
    read_events: bool = False
    see_events: bool = False


@dataclass(frozen=True, slots=True)
class NoteInfo:
    """What a note means.

    `sentence`: what happened, one sentence.
    `hint`: what a person can do, empty if nothing.
    """

    sentence: str
    hint: str = ""


# least_wait is how long the cause needs to go away. The scheduler and the cluster's caches see the new state of a node
# or a pod within 5 to 15 s, a drained or full cluster needs 30, a registry counts pulls per minute or longer (60). The
# processes of a pod that was deleted without a grace period may live some seconds longer, until its kubelet notices
# (docs/design/api-rules.md#grace-of-a-deletion).
# fmt: off
INFRA_KINDS: dict[InfraKind, InfraInfo] = {
    InfraKind.IMAGE_NOT_FOUND: InfraInfo(
        "its image does not exist", "Check the image's name and digest in its registry."),
    InfraKind.IMAGE_DENIED: InfraInfo(
        "the registry denies the pull of its image", "Give the pod an imagePullSecret that may pull this image."),
    InfraKind.IMAGE_INVALID: InfraInfo(
        "its image reference cannot be parsed", "Correct the image reference: registry/name@sha256:digest."),
    InfraKind.IMAGE_ABSENT: InfraInfo(
        "the node does not have its image, and the pull policy is Never",
        "Load the image onto the node, or allow its pull."),
    InfraKind.IMAGE_PLATFORM: InfraInfo(
        "its image is not built for the node's platform", "Use an image that is built for the node's platform."),
    InfraKind.IMAGE_LIMITED: InfraInfo(
        "the registry limits pulls", "Pull with credentials, or from a mirror.", least_wait=60),
    InfraKind.IMAGE_UNREACHABLE: InfraInfo(
        "the registry cannot be reached, or does not answer", "Check that the nodes reach the image's registry.",
        least_wait=30),
    InfraKind.CONFIG: InfraInfo(
        "its container's configuration is not valid",
        "Create or correct what the container's configuration refers to."),
    InfraKind.VOLUME: InfraInfo(
        "a volume could not be mounted", "Check the mounts: source, path in the image, claim and its node."),
    InfraKind.UNSCHEDULABLE: InfraInfo("no node fits its pod", "Request less, or add a node that fits.", least_wait=30),
    InfraKind.START_TIMEOUT: InfraInfo(
        "it did not start in time", "Look at the pod's Events, or raise the target's start timeout.", least_wait=10),
    InfraKind.REJECTED: InfraInfo(
        "the node refused its pod", "See the reason of the pod; another node may accept it.", least_wait=5,
        see_node=True),
    InfraKind.EVICTED: InfraInfo(
        "its pod was evicted", "The node was drained or lacked a resource; try again.", least_wait=1, see_node=True),
    InfraKind.RESOURCE_LIMIT: InfraInfo(
        "its pod was evicted because it exceeded a limit of its own", "Raise the limit, or let the step use less."),
    InfraKind.PREEMPTED: InfraInfo(
        "its pod was preempted", "A pod of higher priority needed the node; raise the priority.", least_wait=5),
    InfraKind.DELETED: InfraInfo("its pod was deleted", "Look in the audit log for who deleted the pod.", least_wait=1),
    InfraKind.VANISHED: InfraInfo(
        "its pod vanished", "The pod was deleted without a grace period; look in the audit log for who did it.",
        least_wait=5),
    InfraKind.NODE_LOST: InfraInfo(
        "its node does not report, or lost the container",
        "Look at the node: it stopped reporting, or lost the container.", least_wait=10, see_node=True),
    InfraKind.RUNTIME: InfraInfo(
        "the node could not run it", "The node's container runtime failed: see its message, or try another node.",
        least_wait=10, see_node=True),
    InfraKind.STAGE_FAILED: InfraInfo(
        "its container senro-stage failed", "Read the log of the container senro-stage.", least_wait=5),
    InfraKind.INIT_FAILED: InfraInfo(
        "an init container that senro did not ask for failed", "Read the log of the init container.", least_wait=5),
    InfraKind.TRANSFER: InfraInfo(
        "a workspace could not be transferred", "Check the network, and the space in the volume.", least_wait=5),
    InfraKind.APISERVER: InfraInfo(
        "the apiserver did not answer", "Check the control plane: the apiserver did not answer for a long time.",
        least_wait=15),
    InfraKind.ADMISSION: InfraInfo(
        "the cluster's policy refused its pod",
        "Change what the message names: a policy of the cluster refuses the pod."),
    InfraKind.ADMISSION_TRANSIENT: InfraInfo(
        "an admission webhook did not answer", "An admission webhook did not answer; try again.", least_wait=5),
    InfraKind.QUOTA: InfraInfo(
        "the namespace's quota is used up", "Delete what the namespace does not need, or raise its quota.",
        least_wait=30),
    InfraKind.POD_SECURITY: InfraInfo(
        "the namespace's Pod Security level refused its pod",
        "Change what the message names, or the namespace's Pod Security level."),
    InfraKind.LIMIT_RANGE: InfraInfo(
        "a LimitRange of the namespace refused its pod",
        "Give the pod resources= (and transfer_resources=) within the namespace's LimitRange."),
    InfraKind.UNAUTHORIZED: InfraInfo(
        "the credential was not accepted", "The credential is not accepted: renew SENRO_K8S_TOKEN_FILE."),
    InfraKind.FORBIDDEN: InfraInfo(
        "the identity lacks a right",
        "Grant the identity the verb that the message names, or correct the namespace if it is misspelt."),
    InfraKind.DEADLINE: InfraInfo(
        "an activeDeadlineSeconds that senro did not set ended its pod",
        "Find out who set activeDeadlineSeconds on the pod."),
    InfraKind.CLAIM: InfraInfo(
        "a claim that it mounts was held by another step all the time",
        "See who holds the claim (kubectl get leases), or wait longer: max_lifetime= on k8s.Pod.", least_wait=1),
}

PENDING_KINDS: dict[PendingKind, PendingInfo] = {
    PendingKind.SCHEDULING: PendingInfo(
        "the scheduler has not placed it yet", InfraKind.START_TIMEOUT, see_events=True),
    PendingKind.GATED: PendingInfo(
        "a scheduling gate is closed, and a queue decides when it opens", InfraKind.START_TIMEOUT,
        hint="Ask the queue that holds it, or the owner of its quota.", grace=GATED_LIMIT, in_start=False),
    PendingKind.UNSCHEDULABLE: PendingInfo(
        "no node fits it now", InfraKind.UNSCHEDULABLE, read_events=True, see_events=True),
    PendingKind.CREATING: PendingInfo(
        "the node prepares it, and reports no problem", InfraKind.START_TIMEOUT, read_events=True, see_events=True),
    PendingKind.STAGING: PendingInfo(
        "its workspaces are being uploaded", None, hint="Wait: the upload goes on.", in_start=False),
    PendingKind.INITIALIZING: PendingInfo(
        "an init container that senro did not ask for is running", InfraKind.START_TIMEOUT),
    PendingKind.IMAGE_NOT_FOUND: PendingInfo("its image does not exist", InfraKind.IMAGE_NOT_FOUND, permanent=True),
    PendingKind.IMAGE_DENIED: PendingInfo(
        "the registry denies the pull of its image", InfraKind.IMAGE_DENIED, permanent=True, read_events=True),
    PendingKind.IMAGE_INVALID: PendingInfo(
        "its image reference cannot be parsed", InfraKind.IMAGE_INVALID, permanent=True),
    PendingKind.IMAGE_ABSENT: PendingInfo(
        "the node does not have its image, and the pull policy is Never", InfraKind.IMAGE_ABSENT, permanent=True),
    PendingKind.IMAGE_PLATFORM: PendingInfo(
        "its image is not built for the node's platform", InfraKind.IMAGE_PLATFORM, permanent=True),
    PendingKind.IMAGE_LIMITED: PendingInfo("the registry limits pulls", InfraKind.IMAGE_LIMITED),
    PendingKind.IMAGE_UNREACHABLE: PendingInfo(
        "the registry cannot be reached, or does not answer", InfraKind.IMAGE_UNREACHABLE),
    PendingKind.CONFIG: PendingInfo(
        "its container's configuration is not valid", InfraKind.CONFIG, missing=re.compile(r" not found\Z")),
    PendingKind.VOLUME: PendingInfo(
        "a volume cannot be mounted", InfraKind.VOLUME, missing=MISSING_SOURCE, read_events=True, see_events=True),
    PendingKind.RUNTIME: PendingInfo("the node cannot start it", InfraKind.RUNTIME, read_events=True),
}

NOTES: dict[Note, NoteInfo] = {
    Note.OOM: NoteInfo(
        "The kernel killed a process of it for memory.", "Raise the step's memory limit, or let it use less."),
    Note.SIGKILL: NoteInfo(
        "It was killed by SIGKILL, and the cluster does not say who sent it.",
        "Look for what killed it: a probe, an operator on the node, the command itself."),
    Note.START_ERROR: NoteInfo(
        "Its command could not be started.",
        "Check the command's path, its permissions and the workdir against the image, and the image's platform "
        "against the node's."),
    Note.TIE: NoteInfo(
        "Its end and the disruption were first seen together, too close for the clocks of two machines to order."),
    Note.DISRUPTION_UNCHECKED: NoteInfo(
        "An eviction for exceeding a limit would have left no trace, and no Events were read.",
        "Look for an Event Evicted about the pod, or let the identity list Events."),
    Note.LEASE_LOST: NoteInfo(
        "Another step may have mounted a claim of this one while it ran: its Lease was not renewed in time."),
}
# fmt: on
