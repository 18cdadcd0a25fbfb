"""Every state that a pod or an Event can show, and what senro makes of it.

The rows are rows 1 to 136 of docs/design/pod-states.md; its other rows are about sequences of states. `pending_kinds`
and `infra_kinds` look reasons up here. If `Means` leaves the answer to something else, it names the module that
decides. `tests/contract/test_pod_states.py` compares the rows with a data file and shows each of them to the
classifier.

What has no row has an answer too. An unknown waiting reason is `runtime`, quoted, and waited for until the start
timeout; an unknown reason of a pod is `rejected`; an unknown reason of DisruptionTarget is `evicted`; a Failed pod
without a status of its step is `Infra`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from senro.domain.verdict.kinds import InfraKind, PendingKind


class Where(StrEnum):
    """The field of a pod, or of an Event about it, that has the value."""

    WAITING = "container.waiting.reason"
    TERMINATED = "container.terminated.reason"
    LAST_STATE = "container.lastState.terminated.reason"
    POD = "pod.status.reason"
    CONDITION = "pod.condition.type"
    CONDITION_REASON = "pod.condition.reason"
    SCHEDULER = "scheduler message"
    EVENT = "event.reason"


class Means(StrEnum):
    """What a row means that has neither a kind of `Pending` nor one of `Infra`."""

    EXITED = "exited"
    """The command ended by itself, with its exit code."""
    WORDS = "words"
    """The message decides: see `image_pull` and `start_error`."""
    ELSEWHERE = "elsewhere"
    """Other fields decide."""
    CAUSE = "cause"
    """It shows people a cause; no answer depends on it."""
    RULE = "rule"
    """It changes how other states are read: see `disruption`."""
    NOTHING = "nothing"
    """It says nothing about the step."""


@dataclass(frozen=True, slots=True)
class Row:
    """One state.

    `number`: its row in docs/design/pod-states.md.
    `where`: the field that shows it.
    `value`: the value of the field, or a pattern of it.
    `means`: what senro makes of it.
    `why`: the reason for `means`.
    """

    number: int
    where: Where
    value: str
    means: PendingKind | InfraKind | Means
    why: str

    @property
    def words(self) -> tuple[str, ...]:
        """The exact values of the field, none if `value` is a pattern."""
        if "<" in self.value:
            return ()
        return tuple(self.value.partition(" (")[0].split(" / "))


WAITING, TERMINATED, LAST_STATE, POD = Where.WAITING, Where.TERMINATED, Where.LAST_STATE, Where.POD
CONDITION, CONDITION_REASON, SCHEDULER = Where.CONDITION, Where.CONDITION_REASON, Where.SCHEDULER
EVENT = Where.EVENT
CREATING, RUNTIME, UNSCHEDULABLE = PendingKind.CREATING, PendingKind.RUNTIME, PendingKind.UNSCHEDULABLE
REJECTED, EVICTED, NODE_LOST = InfraKind.REJECTED, InfraKind.EVICTED, InfraKind.NODE_LOST
EXITED, CAUSE, NOTHING = Means.EXITED, Means.CAUSE, Means.NOTHING

# The formatter would give each row six lines.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row(1, WAITING, "ContainerCreating", CREATING, "no failure yet; if it lasts, only an Event shows the cause"),
    Row(2, WAITING, "PodInitializing", CREATING,
        "as ContainerCreating, in a pod with init containers; in a Failed pod the init container is judged instead"),
    Row(3, WAITING, "", CREATING, "the container is created and not started yet: no reason is no error"),
    Row(4, WAITING, "CrashLoopBackOff", EXITED, "a foreign restart rule restarts the command; its first end counts"),
    Row(5, WAITING, "ErrImagePull", Means.WORDS, "one reason for every failure of a pull: the message shows the cause"),
    Row(6, WAITING, "ImagePullBackOff", Means.WORDS,
        "the pause between two tries of ErrImagePull: same cause and clock"),
    Row(7, WAITING, "ErrImageNeverPull", PendingKind.IMAGE_ABSENT,
        "pull policy Never, and the node has no such image for this pod: waiting changes nothing"),
    Row(8, WAITING, "ImageInspectError", RUNTIME, "the runtime did not answer: a failure of the node, tried again"),
    Row(9, WAITING, "InvalidImageName", PendingKind.IMAGE_INVALID,
        "the reference cannot be parsed: waiting is useless"),
    Row(10, WAITING, "RegistryUnavailable", PendingKind.IMAGE_UNREACHABLE, "CRI-O: the registry refuses connections"),
    Row(11, WAITING, "SignatureValidationFailed", PendingKind.IMAGE_DENIED,
        "CRI-O: the node's policy requires a signature that the image does not have"),
    Row(12, WAITING, "<free text>", RUNTIME, "the text of an error: quoted, and waited for like every unknown reason"),
    Row(13, WAITING, "CreateContainerConfigError", PendingKind.CONFIG,
        "a Secret, a key or a user that does not fit; the message shows whether it may still appear"),
    Row(14, WAITING, "PreCreateHookError", RUNTIME, "the kubelet's CPU or memory manager, no user's hook: tried again"),
    Row(15, WAITING, "CreateContainerError", Means.WORDS, "on CRI-O a missing program; else a mount or the runtime"),
    Row(16, WAITING, "PreStartHookError", RUNTIME, "the kubelet's own hook after the creation: tried again"),
    Row(17, WAITING, "RunContainerError", Means.WORDS, "tried again: the message shows command, mount or runtime"),
    Row(18, WAITING, "PostStartHookError", PendingKind.CONFIG,
        "a postStart hook that senro did not set failed; if nothing restarts, only the exit code of the kill is seen"),
    Row(19, WAITING, "RestartingAllContainers", NODE_LOST,
        "a restart rule that senro did not set removed the containers; they have 20 s to run again"),
    Row(20, WAITING, "KillContainerError (never shown)", RUNTIME, "never shown; it would be a failure of the node"),
    Row(21, WAITING, "CreatePodSandboxError (never shown)", RUNTIME,
        "never shown, since sandbox failures are Events; it would be a failure of the node"),
    Row(22, WAITING, "ConfigPodSandboxError (never shown)", RUNTIME,
        "never shown, since sandbox failures are Events; it would be a failure of the node"),
    Row(23, WAITING, "KillPodSandboxError (never shown)", RUNTIME,
        "never shown, since sandbox failures are Events; it would be a failure of the node"),
    Row(24, WAITING, "ResizePodInPlaceError (never shown)", RUNTIME,
        "never shown, since senro resizes nothing; it would be a failure of the node"),
    Row(25, WAITING, "RemoveContainerError (never shown)", RUNTIME, "never shown; it would be a failure of the node"),
    Row(26, WAITING, "ImageVolumeMountFailed / RROUnsupported (never a reason)", PendingKind.VOLUME,
        "begins the message of a CreateContainerError about an image volume"),
    Row(27, WAITING, "image-volume pull errors", Means.WORDS,
        "pulled like a container's image, with the same messages"),
    Row(28, TERMINATED, "Completed", EXITED,
        "the command ended with 0; without startedAt the kubelet invented the end, which proves nothing"),
    Row(29, TERMINATED, "Error", EXITED, "the command's own exit code, unless a disruption came before"),
    Row(30, TERMINATED, "OOMKilled", EXITED,
        "the kernel killed a process of the container for memory, perhaps a child: the code counts, with the note oom"),
    Row(31, TERMINATED, "StartError", Means.WORDS,
        "it never started: the end of the message shows whether the command or the node is the cause"),
    Row(32, TERMINATED, "ContainerCannotRun", Means.WORDS, "Docker's StartError, with the same messages"),
    Row(33, TERMINATED, "ContainerStatusUnknown", NODE_LOST,
        "an invented end: 137 without times, of a container that was lost or never started"),
    Row(34, TERMINATED, "RestartingAllContainers", NODE_LOST, "an invented end of a restart: 20 s to run again"),
    Row(35, TERMINATED, "Unknown", NODE_LOST, "containerd lost the process when it or the node restarted"),
    Row(36, TERMINATED, "seccomp killed", EXITED, "the program violated its seccomp profile: its own end, by a signal"),
    Row(37, TERMINATED, "DeadlineExceeded (not a container reason)", EXITED,
        "no container has this reason; an end with times is the command's, whatever the reason"),
    Row(38, TERMINATED, "Evicted (not a container reason)", EXITED,
        "no container has this reason; an end with times is the command's, whatever the reason"),
    Row(39, TERMINATED, "signal field", EXITED, "always 0 on a real cluster: the signal is the code less 128"),
    Row(40, LAST_STATE, "ContainerStatusUnknown", NODE_LOST,
        "the runtime no longer has a container that ran: 20 s for the pod's reason, which is more specific"),
    Row(41, LAST_STATE, "RestartingAllContainers", NODE_LOST,
        "like the terminated one: it ran, with 20 s to run again"),
    Row(42, POD, "OutOfcpu", REJECTED, "the node had less CPU left than the scheduler assumed; another pod may fit"),
    Row(43, POD, "OutOfmemory", REJECTED, "as OutOfcpu, for memory"),
    Row(44, POD, "OutOfpods", REJECTED, "as OutOfcpu, for the number of pods"),
    Row(45, POD, "OutOfephemeral-storage", REJECTED, "as OutOfcpu, for ephemeral storage"),
    Row(46, POD, "OutOf<extended resource>", REJECTED, "as OutOfcpu, of a plugin: every unknown reason is a refusal"),
    Row(47, POD, "NodeAffinity", REJECTED, "the node's labels changed; a restarted kubelet refuses running pods too"),
    Row(48, POD, "NodeName", REJECTED, "the pod was bound to the name of another node"),
    Row(49, POD, "NodePorts", REJECTED, "a host port is in use there; it may be free on another node"),
    Row(50, POD, "TaintToleration", REJECTED, "the node got a NoExecute taint meanwhile"),
    Row(51, POD, "UnexpectedAdmissionError", REJECTED, "devices or CPUs could not be allocated, often after a restart"),
    Row(52, POD, "EmptyPodSharedPoolError", REJECTED, "nodes of this kind leave no shared CPUs to the pod; others may"),
    Row(53, POD, "TopologyAffinityError", REJECTED, "no NUMA alignment on this node; another may have it"),
    Row(54, POD, "SMTAlignmentError", REJECTED, "nodes of this kind allocate whole cores only: request whole ones"),
    Row(55, POD, "PodOSSelectorNodeLabelDoesNotMatch", REJECTED,
        "the pod's kubernetes.io/os is not this node's: correct it"),
    Row(56, POD, "PodOSNotSupported", REJECTED, "spec.os is not this node's: correct it"),
    Row(57, POD, "InvalidNodeInfo", REJECTED, "the kubelet could not read its own Node; soon over"),
    Row(58, POD, "SupplementalGroupsPolicyNotSupported", REJECTED,
        "this node does not support supplementalGroupsPolicy Strict; another may"),
    Row(59, POD, "UnknownReason", REJECTED, "the node gave no reason for its refusal"),
    Row(60, POD, "UnexpectedPredicateFailureType", REJECTED, "the kubelet does not know the kind of its own refusal"),
    Row(61, POD, "InitContainerRestartPolicyForbidden", REJECTED,
        "a node before 1.33 has no sidecars, so an injected one cannot run there"),
    Row(62, POD, "AppArmor", REJECTED, "this node cannot enforce the AppArmor profile"),
    Row(63, POD, "SysctlForbidden", REJECTED, "this node does not allow the sysctl"),
    Row(64, POD, "PodLevelResourcesNotSupported", REJECTED, "this node does not support pod-level resources"),
    Row(65, POD, "PodFeatureUnsupported", REJECTED, "the node lacks a feature that the pod uses; another may have it"),
    Row(66, POD, "NodeShutdown", REJECTED, "the pod arrived while the node was shutting down"),
    Row(67, POD, "Evicted", REJECTED,
        '"Pod was rejected:" makes it a refusal: it arrived at a node under pressure and never ran'),
    Row(68, POD, "VolumeAttachmentLimitExceeded", REJECTED,
        "no room for another volume; its containers have invented ends"),
    Row(69, POD, "Evicted", EVICTED,
        "the node lacked a resource, or the pod exceeded a limit of its own, as the message shows (resource-limit)"),
    Row(70, POD, "Preempting", InfraKind.PREEMPTED, "a critical pod needed the node"),
    Row(71, POD, "Terminated", EVICTED, "the node shut down gracefully"),
    Row(72, POD, "DeadlineExceeded", InfraKind.DEADLINE, "activeDeadlineSeconds passed; TimedOut if senro set it"),
    Row(73, POD, "NodeLost", NODE_LOST, "old clusters' reason for a silent node"),
    Row(74, POD, "Infeasible / Deferred (not pod.status.reason)", NOTHING,
        "reasons of conditions about resizing, and senro resizes nothing"),
    Row(75, POD, "Preempted (not a pod reason)", REJECTED,
        "the scheduler writes a condition and an Event, never this; it would be an unknown reason"),
    Row(76, POD, "<empty> with phase Failed", Means.ELSEWHERE, "containers, deletionTimestamp and conditions decide"),
    Row(77, CONDITION, "PodScheduled", PendingKind.SCHEDULING, "False: no node yet, and its reason says why"),
    Row(78, CONDITION_REASON, "Unschedulable (PodScheduled=False)", UNSCHEDULABLE,
        "no node fits now; an autoscaler may still add one"),
    Row(79, CONDITION_REASON, "SchedulerError (PodScheduled=False)", PendingKind.SCHEDULING,
        "the scheduler tries again"),
    Row(80, CONDITION_REASON, "SchedulingGated (PodScheduled=False)", PendingKind.GATED,
        "a queue such as Kueue decides: the start timeout does not run"),
    Row(81, CONDITION, "PodReadyToStartContainers", NOTHING,
        "distinguishes sandbox and image during ContainerCreating; the Events are more specific"),
    Row(82, CONDITION, "Initialized", NOTHING, "the statuses of the init containers are more specific"),
    Row(83, CONDITION, "ContainersReady", Means.ELSEWHERE,
        "as Ready, whose reasons PodCompleted and PodFailed announce the phase while containers still run"),
    Row(84, CONDITION, "Ready", NODE_LOST,
        "False without a reason while ContainersReady is True: the node is silent, and has six minutes to return"),
    Row(85, CONDITION, "DisruptionTarget", EVICTED,
        "True: the pod is being ended, and an unknown reason is an eviction; False: that was withdrawn"),
    Row(86, CONDITION_REASON, "PreemptionByScheduler (DisruptionTarget)", InfraKind.PREEMPTED,
        "a pod of higher priority needs the node"),
    Row(87, CONDITION_REASON, "DeletionByTaintManager (DisruptionTarget)", EVICTED,
        "a NoExecute taint; of a silent node it is node-lost"),
    Row(88, CONDITION_REASON, "DeletionByDeviceTaintManager (DisruptionTarget)", EVICTED,
        "a taint of the pod's device"),
    Row(89, CONDITION_REASON, "EvictionByEvictionAPI (DisruptionTarget)", EVICTED,
        "kubectl drain, a descheduler, or another client of the eviction API"),
    Row(90, CONDITION_REASON, "DeletionByPodGC (DisruptionTarget)", NODE_LOST,
        "the Node object is gone; the containers may still show running"),
    Row(91, CONDITION_REASON, "TerminationByKubelet (DisruptionTarget)", EVICTED,
        "written with the final phase, so the order in which senro saw it proves nothing"),
    Row(92, CONDITION, "PodResizePending", NOTHING, "a resize waits: the step runs on"),
    Row(93, CONDITION, "PodResizeInProgress", NOTHING, "a resize happens: the step runs on"),
    Row(94, CONDITION, "AllContainersRestarting", NOTHING,
        "a restart rule that senro did not set: the containers' states show its effect"),
    Row(95, CONDITION_REASON, "UnknownContainerStatuses", NOTHING, "there are no statuses, which is visible anyway"),
    Row(96, SCHEDULER, "0/<N> nodes are available: ...", UNSCHEDULABLE, "the reasons by number of nodes: quoted whole"),
    Row(97, SCHEDULER, "Insufficient cpu|memory|ephemeral-storage|<extended>", UNSCHEDULABLE,
        "no room now: request less, wait, or let the cluster grow"),
    Row(98, SCHEDULER, "Too many pods", UNSCHEDULABLE, "the nodes have as many pods as they may"),
    Row(99, SCHEDULER, "node(s) had untolerated taint(s)", UNSCHEDULABLE,
        "the nodes are tainted or not ready: see tolerations= of k8s.Pod"),
    Row(100, SCHEDULER, "node(s) didn't match Pod's node affinity/selector", UNSCHEDULABLE,
        "the target's node selector fits no node, or only one that an autoscaler still has to add"),
    Row(101, SCHEDULER, "node(s) didn't match the requested node name", UNSCHEDULABLE, "no node has that name"),
    Row(102, SCHEDULER, "node(s) were unschedulable", UNSCHEDULABLE, "the nodes are cordoned, perhaps for a drain"),
    Row(103, SCHEDULER, "node(s) had unknown conditions", UNSCHEDULABLE, "the nodes have not reported for a while"),
    Row(104, SCHEDULER, "node(s) didn't have free ports for the requested pod ports", UNSCHEDULABLE,
        "the host ports are in use"),
    Row(105, SCHEDULER, "node(s) didn't match pod affinity rules / anti-affinity rules / satisfy existing pods "
        "anti-affinity rules", UNSCHEDULABLE,
        "the affinity of the pod, or the anti-affinity of another, excludes the nodes"),
    Row(106, SCHEDULER, "node(s) didn't match pod topology spread constraints[ (missing required "
        "label)]", UNSCHEDULABLE, "a spread constraint, which senro did not set, cannot be met"),
    Row(107, SCHEDULER, "node(s) didn't match PersistentVolume's node affinity / had no available volume zone / "
        "exceed max volume count / did not have enough free storage / didn't find available persistent volumes to "
        "bind", UNSCHEDULABLE, "a claim's volume is bound to other nodes, or none is left"),
    Row(108, SCHEDULER, "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
        "in-use by another pod", UNSCHEDULABLE, "another pod has the claim, and only one may"),
    Row(109, SCHEDULER, "pod has unbound immediate PersistentVolumeClaims", UNSCHEDULABLE,
        "a claim is not bound yet: its provisioner works, or there is none"),
    Row(110, SCHEDULER, 'persistentvolumeclaim "<n>" not found | is being deleted | bound to non-existent '
        "persistentvolume", UNSCHEDULABLE,
        "the claim does not exist, is being deleted, or lost its volume: check its name"),
    Row(111, SCHEDULER, "no nodes available to schedule pods", UNSCHEDULABLE, "the cluster has no nodes now"),
    Row(112, SCHEDULER, "skip schedule deleting pod: <ns>/<n>", CAUSE,
        "the pod is being deleted, as its metadata shows"),
    Row(113, EVENT, "Failed", CAUSE, "the waiting or terminated reason says the same, with a message"),
    Row(114, EVENT, "BackOff", CAUSE, "the waiting reason says the same"),
    Row(115, EVENT, "Pulling / Pulled", CREATING, "sandbox and volumes are ready: their failures are over"),
    Row(116, EVENT, "InspectFailed / ErrImageNeverPull", CAUSE, "the waiting reason says the same"),
    Row(117, EVENT, "Created / Started", CREATING, "the runtime has the container: earlier failures are over"),
    Row(118, EVENT, "Killing", Means.RULE,
        "the kubelet stopped the step's container: no success, even if it ends with 0 (a shutdown of the node)"),
    Row(119, EVENT, "Unhealthy / ProbeWarning", CAUSE, "a probe that senro did not set failed"),
    Row(120, EVENT, "FailedMount / FailedAttachVolume / FailedMapVolume", PendingKind.VOLUME,
        'the volume behind a lasting ContainerCreating; a Secret that is "not found" ends it after a minute'),
    Row(121, EVENT, "FailedCreatePodSandBox / FailedPodSandBoxStatus", RUNTIME,
        "the sandbox or network behind a lasting ContainerCreating: a failure of the node"),
    Row(122, EVENT, "SandboxChanged", RUNTIME, "the sandbox is made anew: a failure of the node, mostly soon over"),
    Row(123, EVENT, "NetworkNotReady", RUNTIME, "the node's network plugin is not ready: a failure of the node"),
    Row(124, EVENT, "FailedCreatePodContainer", RUNTIME, "the pod's cgroup cannot be created: a failure of the node"),
    Row(125, EVENT, "FailedPrepareDynamicResources", RUNTIME, "a device driver failed: a failure of the node"),
    Row(126, EVENT, "FailedSync", RUNTIME, "the runtime does not answer the kubelet: a failure of the node"),
    Row(127, EVENT, "FailedToRetrieveImagePullSecret", CAUSE,
        "the cause of an image-denied: a missing imagePullSecret"),
    Row(128, EVENT, "FailedPostStartHook / FailedPreStopHook", CAUSE, "a hook that senro did not set failed"),
    Row(129, EVENT, "Evicted", EVICTED, "written before the containers are killed; the only sign of some evictions"),
    Row(130, EVENT, "Preempting / ExceededGracePeriod / FailedKillPod", CAUSE, "the reason follows with the phase"),
    Row(131, EVENT, "DeadlineExceeded", CAUSE, "the pod's reason says the same"),
    Row(132, EVENT, "<admission reason> e.g. OutOfcpu, NodeAffinity", CAUSE, "the pod's reason says the same"),
    Row(133, EVENT, "Scheduled / FailedScheduling / Preempted", CAUSE, "the condition PodScheduled says the same"),
    Row(134, EVENT, "TaintManagerEviction / DeviceTaintManagerEviction / NodeNotReady", CAUSE,
        "DisruptionTarget and Ready say the same"),
    Row(135, EVENT, "Rebooted / SystemOOM (on the Node object)", CAUSE, "about the Node: look there next"),
    Row(136, EVENT,
        "ResizeDeferred/ResizeInfeasible/ResizeStarted/ResizeCompleted/ResizeError/FailedNodeDeclaredFeaturesCheck",
        NOTHING, "senro resizes nothing"),
)
# fmt: on


def pending_kinds(where: Where) -> dict[str, PendingKind]:
    """What a step waits for, by the values of the field."""
    rows = ((row.means, row.words) for row in ROWS if row.where is where)
    return {word: means for means, words in rows if isinstance(means, PendingKind) for word in words}


def infra_kinds(where: Where) -> dict[str, InfraKind]:
    """What failed a step, by the values of the field. Of two rows with one value the later counts."""
    rows = ((row.means, row.words) for row in ROWS if row.where is where)
    return {word: means for means, words in rows if isinstance(means, InfraKind) for word in words}
