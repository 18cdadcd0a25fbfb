"""Every state that a pod can show, and what senro makes of it.

These are the 170 rows of docs/design/pod-states.md, in the order of their numbers.

Who asks why a pod came to its answer finds the reason here, and who meets a new state adds it here. The classifier
looks words up here (`pending_kinds`, `infra_kinds`); where a row leaves the answer to something else, `Means` names the
module that reads it. tests/contract/test_pod_states.py holds each row to the facts, and shows each to the classifier.

What no row names has an answer too: an unknown waiting reason is `runtime`, quoted verbatim, and waited for until
the start timeout; an unknown reason of a pod is `rejected`; an unknown reason of DisruptionTarget is `evicted`; a
Failed pod without any status of its step is Infra.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from senro.domain.verdict.kinds import InfraKind, PendingKind


class Where(StrEnum):
    """Which field of a pod, or of an Event about it, holds the value."""

    WAITING = "container.waiting.reason"
    TERMINATED = "container.terminated.reason"
    LAST_STATE = "container.lastState.terminated.reason"
    POD = "pod.status.reason"
    CONDITION = "pod.condition.type"
    CONDITION_REASON = "pod.condition.reason"
    SCHEDULER = "scheduler message"
    EVENT = "event.reason"
    OBSERVATION = "observation"


class Means(StrEnum):
    """What a row comes to that is neither a kind of waiting nor one of Infra."""

    EXITED = "exited"
    """The command's own end, by its code."""
    WORDS = "words"
    """Its message decides: `images` for pulls, `starts` for starts."""
    ELSEWHERE = "elsewhere"
    """Other fields decide; alone it says nothing."""
    CAUSE = "cause"
    """For a person, who finds a cause in it; no answer depends on it."""
    RULE = "rule"
    """How to read other states: `evidence`, `signs`, `ended`."""
    NOTHING = "nothing"
    """It says nothing about the step."""


@dataclass(frozen=True, slots=True)
class Row:
    """One state.

    `number` is its row in docs/design/pod-states.md. `value` is the word that a pod or an Event shows. `why` is senro's
    reason for `means`.
    """

    number: int
    where: Where
    value: str
    means: PendingKind | InfraKind | Means
    why: str

    @property
    def words(self) -> tuple[str, ...]:
        """What a pod or an Event shows for it, exactly; none where the value is a pattern."""
        if "<" in self.value:
            return ()
        return tuple(self.value.partition(" (")[0].split(" / "))


WAITING, TERMINATED, LAST_STATE, POD = Where.WAITING, Where.TERMINATED, Where.LAST_STATE, Where.POD
CONDITION, CONDITION_REASON, SCHEDULER = Where.CONDITION, Where.CONDITION_REASON, Where.SCHEDULER
EVENT, OBSERVATION = Where.EVENT, Where.OBSERVATION

# A table is read by its rows; the formatter would give each of them six lines.
# fmt: off
ROWS: tuple[Row, ...] = (
    Row(1, WAITING, "ContainerCreating", PendingKind.CREATING,
        "no complaint yet; where it lasts an Event names the cause, and nothing else does"),
    Row(2, WAITING, "PodInitializing", PendingKind.CREATING,
        "as ContainerCreating, in a pod with init containers; in a Failed pod the init container is judged instead"),
    Row(3, WAITING, "", PendingKind.CREATING, "created and not started yet: no reason is no error"),
    Row(4, WAITING, "CrashLoopBackOff", Means.EXITED,
        "a restart rule that is not senro's wants the command again; its first end is the one that was asked for"),
    Row(5, WAITING, "ErrImagePull", Means.WORDS,
        "one reason for every trouble with an image: the runtime's words tell them apart"),
    Row(6, WAITING, "ImagePullBackOff", Means.WORDS,
        "the pause between two tries of ErrImagePull: its words, and its clock"),
    Row(7, WAITING, "ErrImageNeverPull", PendingKind.IMAGE_ABSENT,
        "pull policy Never, and the node has no such image for this pod: nothing changes by waiting"),
    Row(8, WAITING, "ImageInspectError", PendingKind.RUNTIME,
        "the runtime did not answer the question for the image: the node's trouble, tried again"),
    Row(9, WAITING, "InvalidImageName", PendingKind.IMAGE_INVALID, "the reference cannot be parsed: the same for ever"),
    Row(10, WAITING, "RegistryUnavailable", PendingKind.IMAGE_UNREACHABLE,
        "CRI-O's word for a registry that refuses connections: it may come back"),
    Row(11, WAITING, "SignatureValidationFailed", PendingKind.IMAGE_DENIED,
        "CRI-O: the node's policy wants a signature that the image has not"),
    Row(12, WAITING, "<free text>", PendingKind.RUNTIME,
        "the reason is an error's whole sentence: quoted, and waited for, as every unknown reason is"),
    Row(13, WAITING, "CreateContainerConfigError", PendingKind.CONFIG,
        "a Secret, a key or a user that does not fit; the message tells what can still appear (patience knows)"),
    Row(14, WAITING, "PreCreateHookError", PendingKind.RUNTIME,
        "the kubelet's own CPU or memory manager, no hook of the user's: tried again"),
    Row(15, WAITING, "CreateContainerError", Means.WORDS,
        "on CRI-O a missing executable is here, tried for ever; else it is a mount or the runtime"),
    Row(16, WAITING, "PreStartHookError", PendingKind.RUNTIME, "the kubelet's own hook after creation: tried again"),
    Row(17, WAITING, "RunContainerError", Means.WORDS,
        "the start failed and is tried again: the command's, a mount's or the runtime's words"),
    Row(18, WAITING, "PostStartHookError", PendingKind.CONFIG,
        "a postStart hook that is not senro's failed; where nothing restarts, only the kill's code is seen"),
    Row(19, WAITING, "RestartingAllContainers", InfraKind.NODE_LOST,
        "a restart rule that is not senro's took the containers away; they have 20 s to run again"),
    Row(20, WAITING, "KillContainerError (never shown)", PendingKind.RUNTIME,
        "never shown; were it shown, it would be the node's trouble"),
    Row(21, WAITING, "CreatePodSandboxError (never shown)", PendingKind.RUNTIME,
        "never shown: sandbox failures are Events; were it shown, the node's trouble"),
    Row(22, WAITING, "ConfigPodSandboxError (never shown)", PendingKind.RUNTIME,
        "never shown: sandbox failures are Events; were it shown, the node's trouble"),
    Row(23, WAITING, "KillPodSandboxError (never shown)", PendingKind.RUNTIME,
        "never shown: sandbox failures are Events; were it shown, the node's trouble"),
    Row(24, WAITING, "ResizePodInPlaceError (never shown)", PendingKind.RUNTIME,
        "never shown: senro resizes nothing; were it shown, the node's trouble"),
    Row(25, WAITING, "RemoveContainerError (never shown)", PendingKind.RUNTIME,
        "never shown; were it shown, the node's trouble"),
    Row(26, WAITING, "ImageVolumeMountFailed / RROUnsupported (never a reason)", PendingKind.VOLUME,
        "how a CreateContainerError begins that is about an image volume"),
    Row(27, WAITING, "image-volume pull errors", Means.WORDS,
        "the image of a volume is pulled as a container's is, and the words are the same"),
    Row(28, TERMINATED, "Completed", Means.EXITED,
        "the command ended with 0; without startedAt the kubelet made it up, and it proves nothing"),
    Row(29, TERMINATED, "Error", Means.EXITED, "the command's own code, unless a sign of disruption was there first"),
    Row(30, TERMINATED, "OOMKilled", Means.EXITED,
        "something in it was killed for memory, perhaps a child: the code stands, with the note oom"),
    Row(31, TERMINATED, "StartError", Means.WORDS,
        "never started: the words after the innermost marker tell command from machine"),
    Row(32, TERMINATED, "ContainerCannotRun", Means.WORDS,
        "docker's word for StartError, with the same words in its message"),
    Row(33, TERMINATED, "ContainerStatusUnknown", InfraKind.NODE_LOST,
        "an invented end: 137 without times, written for a lost container and for one that never started"),
    Row(34, TERMINATED, "RestartingAllContainers", InfraKind.NODE_LOST,
        "an invented end while all containers are restarted: 20 s to run again"),
    Row(35, TERMINATED, "Unknown", InfraKind.NODE_LOST,
        "containerd lost the task by its own restart or the node's; 255 is invented"),
    Row(36, TERMINATED, "seccomp killed", Means.EXITED,
        "the program broke its seccomp profile: its own end, by a signal"),
    Row(37, TERMINATED, "DeadlineExceeded (not a container reason)", Means.EXITED,
        "no container has this reason; an end with times is the command's, whatever the reason's word"),
    Row(38, TERMINATED, "Evicted (not a container reason)", Means.EXITED,
        "no container has this reason; an end with times is the command's, whatever the reason's word"),
    Row(39, TERMINATED, "signal field", Means.EXITED,
        "always 0 on a real cluster: the signal is read from the code, 128 and above"),
    Row(40, LAST_STATE, "ContainerStatusUnknown", InfraKind.NODE_LOST,
        "it was running and the runtime has it no more: 20 s for the pod's reason, which names it better"),
    Row(41, LAST_STATE, "RestartingAllContainers", InfraKind.NODE_LOST,
        "as the terminated one: it did run, and has 20 s to run again"),
    Row(42, POD, "OutOfcpu", InfraKind.REJECTED,
        "the node had less CPU left than the scheduler thought; another pod may fit"),
    Row(43, POD, "OutOfmemory", InfraKind.REJECTED, "as OutOfcpu, for memory"),
    Row(44, POD, "OutOfpods", InfraKind.REJECTED, "as OutOfcpu, for the number of pods"),
    Row(45, POD, "OutOfephemeral-storage", InfraKind.REJECTED, "as OutOfcpu, for ephemeral storage"),
    Row(46, POD, "OutOf<extended resource>", InfraKind.REJECTED,
        "as OutOfcpu, for any resource a plugin brings: every reason without a row of its own is a refusal"),
    Row(47, POD, "NodeAffinity", InfraKind.REJECTED,
        "the node's labels changed; a running pod too is refused when its kubelet restarts"),
    Row(48, POD, "NodeName", InfraKind.REJECTED, "the pod was bound to another node's name"),
    Row(49, POD, "NodePorts", InfraKind.REJECTED, "a host port is taken there; another node may have it free"),
    Row(50, POD, "TaintToleration", InfraKind.REJECTED, "the node got a NoExecute taint meanwhile"),
    Row(51, POD, "UnexpectedAdmissionError", InfraKind.REJECTED,
        "devices or CPUs could not be allocated, mostly right after a restart there"),
    Row(52, POD, "EmptyPodSharedPoolError", InfraKind.REJECTED,
        "this kind of node leaves no shared CPUs for the pod: another kind may"),
    Row(53, POD, "TopologyAffinityError", InfraKind.REJECTED, "no NUMA alignment on this node; another may have it"),
    Row(54, POD, "SMTAlignmentError", InfraKind.REJECTED,
        "this kind of node hands out whole cores only: ask for whole ones"),
    Row(55, POD, "PodOSSelectorNodeLabelDoesNotMatch", InfraKind.REJECTED,
        "the pod's label kubernetes.io/os is not this node's: correct the label"),
    Row(56, POD, "PodOSNotSupported", InfraKind.REJECTED, "spec.os is not this node's: correct it"),
    Row(57, POD, "InvalidNodeInfo", InfraKind.REJECTED, "the kubelet could not read its own Node; soon over"),
    Row(58, POD, "SupplementalGroupsPolicyNotSupported", InfraKind.REJECTED,
        "supplementalGroupsPolicy Strict is not known to this node: another may know it"),
    Row(59, POD, "UnknownReason", InfraKind.REJECTED, "the node gave no reason for its refusal"),
    Row(60, POD, "UnexpectedPredicateFailureType", InfraKind.REJECTED,
        "the node's refusal has a kind that the kubelet does not know"),
    Row(61, POD, "InitContainerRestartPolicyForbidden", InfraKind.REJECTED,
        "a node before 1.33 without sidecars: an injected one cannot run there"),
    Row(62, POD, "AppArmor", InfraKind.REJECTED, "this node cannot enforce the AppArmor profile"),
    Row(63, POD, "SysctlForbidden", InfraKind.REJECTED, "this node does not allow the sysctl"),
    Row(64, POD, "PodLevelResourcesNotSupported", InfraKind.REJECTED,
        "this node does not know resources of whole pods"),
    Row(65, POD, "PodFeatureUnsupported", InfraKind.REJECTED,
        "an older node lacks a feature that the pod uses: another may have it"),
    Row(66, POD, "NodeShutdown", InfraKind.REJECTED, "the pod came while the node was going down"),
    Row(67, POD, "Evicted", InfraKind.REJECTED,
        '"Pod was rejected:" tells it from an eviction: it came to a node under pressure and never ran'),
    Row(68, POD, "VolumeAttachmentLimitExceeded", InfraKind.REJECTED,
        "no room for another volume there; its containers then show invented ends"),
    Row(69, POD, "Evicted", InfraKind.EVICTED,
        "the node was short, or the step outgrew its own limit, which the words tell (resource-limit)"),
    Row(70, POD, "Preempting", InfraKind.PREEMPTED, "a critical pod needed the place"),
    Row(71, POD, "Terminated", InfraKind.EVICTED, "the node was shut down gracefully"),
    Row(72, POD, "DeadlineExceeded", InfraKind.DEADLINE,
        "activeDeadlineSeconds; TimedOut where the value is senro's own"),
    Row(73, POD, "NodeLost", InfraKind.NODE_LOST, "old clusters' word for a silent node"),
    Row(74, POD, "Infeasible / Deferred (not pod.status.reason)", Means.NOTHING,
        "reasons of conditions about resizing, and senro resizes nothing"),
    Row(75, POD, "Preempted (not a pod reason)", InfraKind.REJECTED,
        "the scheduler sets a condition and an Event, never this; were it shown, an unknown reason"),
    Row(76, POD, "<empty> with phase Failed", Means.ELSEWHERE,
        "three different things look like this: containers, deletionTimestamp and conditions decide"),
    Row(77, CONDITION, "PodScheduled", PendingKind.SCHEDULING, "False: no node yet, and its reason says why"),
    Row(78, CONDITION_REASON, "Unschedulable (PodScheduled=False)", PendingKind.UNSCHEDULABLE,
        "no node fits now; the scheduler is quoted, and an autoscaler may still add one"),
    Row(79, CONDITION_REASON, "SchedulerError (PodScheduled=False)", PendingKind.SCHEDULING,
        "the scheduler's own trouble: it tries again"),
    Row(80, CONDITION_REASON, "SchedulingGated (PodScheduled=False)", PendingKind.GATED,
        "a queue such as Kueue decides: no clock of a start runs"),
    Row(81, CONDITION, "PodReadyToStartContainers", Means.NOTHING,
        "tells sandbox from image while ContainerCreating lasts; the Events say it better"),
    Row(82, CONDITION, "Initialized", Means.NOTHING, "the init containers' own statuses say more"),
    Row(83, CONDITION, "ContainersReady", Means.ELSEWHERE,
        "as Ready, whose reasons PodCompleted and PodFailed foretell the phase while containers still run"),
    Row(84, CONDITION, "Ready", InfraKind.NODE_LOST,
        "False without a reason while ContainersReady is True: the node fell silent, and has six minutes to return"),
    Row(85, CONDITION, "DisruptionTarget", InfraKind.EVICTED,
        "True: somebody ends the pod, and an unknown reason counts as an eviction; False calls it off"),
    Row(86, CONDITION_REASON, "PreemptionByScheduler (DisruptionTarget)", InfraKind.PREEMPTED,
        "a pod of higher priority takes the place"),
    Row(87, CONDITION_REASON, "DeletionByTaintManager (DisruptionTarget)", InfraKind.EVICTED,
        "a NoExecute taint; from a node that fell silent it is node-lost"),
    Row(88, CONDITION_REASON, "DeletionByDeviceTaintManager (DisruptionTarget)", InfraKind.EVICTED,
        "a taint of the device that the pod uses"),
    Row(89, CONDITION_REASON, "EvictionByEvictionAPI (DisruptionTarget)", InfraKind.EVICTED,
        "kubectl drain, a descheduler, or whoever asked for the eviction"),
    Row(90, CONDITION_REASON, "DeletionByPodGC (DisruptionTarget)", InfraKind.NODE_LOST,
        "the Node object is gone; the containers may still say running"),
    Row(91, CONDITION_REASON, "TerminationByKubelet (DisruptionTarget)", InfraKind.EVICTED,
        "the kubelet's own word, seen with the final phase alone: the order of sight proves nothing"),
    Row(92, CONDITION, "PodResizePending", Means.NOTHING, "a resize waits: the step runs on"),
    Row(93, CONDITION, "PodResizeInProgress", Means.NOTHING, "a resize happens: the step runs on"),
    Row(94, CONDITION, "AllContainersRestarting", Means.NOTHING,
        "somebody's restart rule at work: the containers' states say what it does to the step"),
    Row(95, CONDITION_REASON, "UnknownContainerStatuses", Means.NOTHING,
        "says that there are no statuses, which is seen anyway"),
    Row(96, SCHEDULER, "0/<N> nodes are available: ...", PendingKind.UNSCHEDULABLE,
        "the scheduler counts its reasons by nodes: quoted whole"),
    Row(97, SCHEDULER, "Insufficient cpu|memory|ephemeral-storage|<extended>", PendingKind.UNSCHEDULABLE,
        "no room now: ask for less, wait, or let the cluster grow"),
    Row(98, SCHEDULER, "Too many pods", PendingKind.UNSCHEDULABLE, "the nodes hold as many pods as they may"),
    Row(99, SCHEDULER, "node(s) had untolerated taint(s)", PendingKind.UNSCHEDULABLE,
        "the nodes are tainted or not ready: tolerations are not senro's to give"),
    Row(100, SCHEDULER, "node(s) didn't match Pod's node affinity/selector", PendingKind.UNSCHEDULABLE,
        "the target's node selector fits no node, or only one that an autoscaler still has to make"),
    Row(101, SCHEDULER, "node(s) didn't match the requested node name", PendingKind.UNSCHEDULABLE,
        "the pod asks for a node by a name that there is not"),
    Row(102, SCHEDULER, "node(s) were unschedulable", PendingKind.UNSCHEDULABLE,
        "the nodes are cordoned: a drain may be under way"),
    Row(103, SCHEDULER, "node(s) had unknown conditions", PendingKind.UNSCHEDULABLE,
        "the nodes have not reported for a while"),
    Row(104, SCHEDULER, "node(s) didn't have free ports for the requested pod ports", PendingKind.UNSCHEDULABLE,
        "the host ports are taken"),
    Row(105, SCHEDULER, "node(s) didn't match pod affinity rules / anti-affinity rules / "
        "satisfy existing pods anti-affinity rules", PendingKind.UNSCHEDULABLE,
        "the pod's affinity, or another's anti-affinity, keeps it away"),
    Row(106, SCHEDULER, "node(s) didn't match pod topology spread "
        "constraints[ (missing required label)]", PendingKind.UNSCHEDULABLE,
        "a spread constraint, which somebody else put on the pod, cannot be met"),
    Row(107, SCHEDULER, "node(s) didn't match PersistentVolume's node affinity / had no available volume zone / "
        "exceed max volume count / did not have enough free storage / didn't find available persistent volumes to bind",
        PendingKind.UNSCHEDULABLE, "a claim's volume is bound to other nodes, or there is none left"),
    Row(108, SCHEDULER, "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
        "access mode already in-use by another pod", PendingKind.UNSCHEDULABLE,
        "another pod holds the claim, and only one may"),
    Row(109, SCHEDULER, "pod has unbound immediate PersistentVolumeClaims", PendingKind.UNSCHEDULABLE,
        "a claim is not bound yet: its provisioner works, or there is none"),
    Row(110, SCHEDULER, 'persistentvolumeclaim "<n>" not found | is being deleted | '
        "bound to non-existent persistentvolume", PendingKind.UNSCHEDULABLE,
        "the claim is not there, is being deleted, or lost its volume: check its name"),
    Row(111, SCHEDULER, "no nodes available to schedule pods", PendingKind.UNSCHEDULABLE,
        "the cluster has no nodes now"),
    Row(112, SCHEDULER, "skip schedule deleting pod: <ns>/<n>", Means.CAUSE,
        "the pod is being deleted, which its deletionTimestamp says first"),
    Row(113, EVENT, "Failed", Means.CAUSE, "the waiting or terminated reason says the same, with its words"),
    Row(114, EVENT, "BackOff", Means.CAUSE, "the waiting reason says the same"),
    Row(115, EVENT, "Pulling / Pulled", PendingKind.CREATING,
        "sandbox and volumes are there: failures before it are over"),
    Row(116, EVENT, "InspectFailed / ErrImageNeverPull", Means.CAUSE, "the waiting reason says the same"),
    Row(117, EVENT, "Created / Started", PendingKind.CREATING,
        "the runtime has the container: failures before it are over"),
    Row(118, EVENT, "Killing", Means.RULE,
        "the step's container was stopped by its kubelet: no success, though it ends with 0 (a node's shutdown)"),
    Row(119, EVENT, "Unhealthy / ProbeWarning", Means.CAUSE,
        "a probe that somebody else put on the pod failed, for a person to read"),
    Row(120, EVENT, "FailedMount / FailedAttachVolume / FailedMapVolume", PendingKind.VOLUME,
        'the volume behind a lasting ContainerCreating; "not found" of a Secret ends after a minute'),
    Row(121, EVENT, "FailedCreatePodSandBox / FailedPodSandBoxStatus", PendingKind.RUNTIME,
        "the pod's network or sandbox behind a lasting ContainerCreating: the node's trouble"),
    Row(122, EVENT, "SandboxChanged", PendingKind.RUNTIME,
        "the sandbox is made anew: the node's trouble, mostly soon over"),
    Row(123, EVENT, "NetworkNotReady", PendingKind.RUNTIME,
        "the node's network plugin is not ready: the node's trouble"),
    Row(124, EVENT, "FailedCreatePodContainer", PendingKind.RUNTIME,
        "the pod's cgroup could not be made: the node's trouble"),
    Row(125, EVENT, "FailedPrepareDynamicResources", PendingKind.RUNTIME,
        "a device's driver could not prepare it: the node's trouble"),
    Row(126, EVENT, "FailedSync", PendingKind.RUNTIME,
        "the kubelet has no answer from its runtime: the node's trouble"),
    Row(127, EVENT, "FailedToRetrieveImagePullSecret", Means.CAUSE,
        "behind an image-denied: the imagePullSecret that the pod names is not there"),
    Row(128, EVENT, "FailedPostStartHook / FailedPreStopHook", Means.CAUSE,
        "a hook that is not senro's failed, for a person to read"),
    Row(129, EVENT, "Evicted", InfraKind.EVICTED,
        "said before anything is killed, and of some evictions the only trace"),
    Row(130, EVENT, "Preempting / ExceededGracePeriod / FailedKillPod", Means.CAUSE,
        "the pod's reason follows with the phase"),
    Row(131, EVENT, "DeadlineExceeded", Means.CAUSE, "the pod's reason says the same"),
    Row(132, EVENT, "<admission reason> e.g. OutOfcpu, NodeAffinity", Means.CAUSE, "the pod's reason says the same"),
    Row(133, EVENT, "Scheduled / FailedScheduling / Preempted", Means.CAUSE,
        "the PodScheduled condition says the same"),
    Row(134, EVENT, "TaintManagerEviction / DeviceTaintManagerEviction / NodeNotReady", Means.CAUSE,
        "DisruptionTarget and Ready say the same"),
    Row(135, EVENT, "Rebooted / SystemOOM (on the Node object)", Means.CAUSE,
        "about the Node, which a person may ask next"),
    Row(136, EVENT, "ResizeDeferred/ResizeInfeasible/ResizeStarted/ResizeCompleted/"
        "ResizeError/FailedNodeDeclaredFeaturesCheck", Means.NOTHING,
        "senro resizes nothing"),
    Row(137, OBSERVATION, "phase lags containers", Means.RULE,
        "a finish beside Ready.reason PodFailed is held up to 20 s: the reason comes with the phase"),
    Row(138, OBSERVATION, "never-started-137", Means.RULE,
        "an invented end says nothing of whether it ran: the memory of its states does"),
    Row(139, OBSERVATION, "distinguish lost-after-running from never-started", Means.RULE,
        "lastState, containerID and what was seen before tell lost from never started"),
    Row(140, OBSERVATION, "deadline/eviction/shutdown with exit 0", Means.RULE,
        "the pod's reason goes before any exit code, 0 too"),
    Row(141, OBSERVATION, "deleted pod that exits 0", Means.RULE,
        "a code after a deletionTimestamp that is not ours is a deletion's, 0 too"),
    Row(142, OBSERVATION, "liveness/startup probe kill with restartPolicy Never", Means.RULE,
        "a probe's kill looks like the command's own end: Exited, since nothing in the pod says otherwise"),
    Row(143, OBSERVATION, "restartPolicy Never is not at-most-once", Means.RULE,
        "Never is not at most once: DidRun says maybe wherever a start may have been missed"),
    Row(144, OBSERVATION, "stuck Pending with restartPolicy Never", Means.RULE,
        "nothing but senro's patience ends a pod that cannot start"),
    Row(145, OBSERVATION, "containerStatuses absent or empty", Means.RULE,
        "no statuses in a Failed pod is a refusal by its reason; before that, nothing is wrong"),
    Row(146, OBSERVATION, "rejected after having run", Means.RULE, "a refusal of a pod that was seen running did run"),
    Row(147, OBSERVATION, "state all null", Means.RULE, "a state with nothing in it waits without a reason"),
    Row(148, OBSERVATION, "startedAt/finishedAt null vs epoch", Means.RULE,
        "startedAt null is an invented end, 1970 a start that failed"),
    Row(149, OBSERVATION, "containerStatuses order", Means.RULE, "containers are found by name, never by place"),
    Row(150, OBSERVATION, "restartCount", Means.RULE, "restartCount proves nothing and is not read"),
    Row(151, OBSERVATION, "termination message", Means.RULE,
        "a termination message is quoted, never judged, but for StartError"),
    Row(152, OBSERVATION, "exit codes invented by components", Means.RULE,
        "a code counts only with its reason and its times"),
    Row(153, OBSERVATION, "StartError on containerd vs CreateContainerError on CRI-O", Means.RULE,
        "the two runtimes put one mistake into two places: both are the command's"),
    Row(154, OBSERVATION, "node reboot", Means.RULE, "after a reboot the ends are invented: node-lost"),
    Row(155, OBSERVATION, "kubelet restart only", Means.RULE,
        "a kubelet's restart flips conditions, not states: the states are believed"),
    Row(156, OBSERVATION, "eviction order of updates", Means.RULE,
        "the reason comes last: what ends before it is held"),
    Row(157, OBSERVATION, "under disk pressure dead containers of terminal pods are removed", Means.RULE,
        "a log is read while it is written, and again before the deletion"),
    Row(158, OBSERVATION, "pod GC", Means.RULE, "Failed with a running container is the collector's work: node-lost"),
    Row(159, OBSERVATION, "deletion marks", Means.RULE,
        "the deletion was asked for its grace before deletionTimestamp"),
    Row(160, OBSERVATION, "final removal by kubelet", Means.RULE, "a 404 after a held finish is that finish"),
    Row(161, OBSERVATION, "sidecars (restartable init containers)", Means.RULE,
        "sidecars among the init containers may end as they like"),
    Row(162, OBSERVATION, "init container failure", Means.RULE,
        "an init container that fails ends the attempt at once; OOMKilled fails with 0 too"),
    Row(163, OBSERVATION, "container restart rules", Means.RULE,
        "senro asks for no restarts: the first end is the verdict, whatever somebody's rule does next"),
    Row(164, OBSERVATION, "postStart failure with restartPolicy Never", Means.RULE,
        "only an Event tells a hook's kill: it stays Exited with the kill's code"),
    Row(165, OBSERVATION, "exit-code visibility race", Means.RULE,
        "an end that got lost on the way is invented: node-lost"),
    Row(166, OBSERVATION, "typical status order for a one-container Job pod", Means.RULE,
        "a poller may miss Running: an end with times proves the run"),
    Row(167, OBSERVATION, "node partition", Means.RULE,
        "a silent node's process may live: no repetition before it is gone, unless asked for"),
    Row(168, OBSERVATION, "AppArmor/Seccomp/SELinux runtime denials", Means.RULE,
        "a denied profile is a CreateContainerError or StartError, judged by its words"),
    Row(169, OBSERVATION, "status.phase Unknown", Means.RULE,
        "of phases only Succeeded and Failed are believed; Unknown says nothing"),
    Row(170, OBSERVATION, "OpenShift carry: managed (workload-pinned) pods", Means.RULE,
        "the CPU of a status is not read"),
)
# fmt: on


def pending_kinds(where: Where) -> dict[str, PendingKind]:
    """What a step waits for that shows one of these words in that place."""
    return {
        word: row.means
        for row in ROWS
        if row.where is where and isinstance(row.means, PendingKind)
        for word in row.words
    }


def infra_kinds(where: Where) -> dict[str, InfraKind]:
    """What failed a step that shows one of these words there. Of two rows with one word the later is the rule."""
    return {
        word: row.means for row in ROWS if row.where is where and isinstance(row.means, InfraKind) for word in row.words
    }
