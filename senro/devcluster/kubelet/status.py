"""A pod's status as the kubelet composes it; pure. The recordings named in each place are the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from senro.devcluster.images import find_image
from senro.devcluster.kubelet.pod_resources import pod_resources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from senro.devcluster.objects import Object

HOST_ADDRESS = "10.85.0.1"
KUBELETS_OWN = frozenset({"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"})
"""The conditions that are the kubelet's word; others stay as whoever set them left them."""
_NEVER_STARTED = "1970-01-01T00:00:00Z"


@dataclass(slots=True)
class ContainerState:
    """What the kubelet knows of one container. Times are metav1.Time texts; "" is not yet.

    `container_id` says that the runtime made it, `exit_code` that it has ended; `waiting` is the reason until then.
    """

    waiting: str
    waiting_message: str = ""
    container_id: str = ""
    started_at: str = ""
    finished_at: str = ""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    lost: bool = False
    """The runtime knows nothing of it any more (recording evicted-kubelet-killed)."""
    out_of_memory: bool = False
    last: Object = field(default_factory=dict)
    """The `lastState`, and with it the restart that the kubelet counts for a container it has lost."""

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return bool(self.started_at) and self.exit_code is None

    @property
    def succeeded(self) -> bool:
        """Whether it ended with 0."""
        return self.exit_code == 0

    def lose(self) -> None:
        """The runtime's container is gone before its end was seen: it waits again, with its loss as last state."""
        unknown = "The container could not be located when the pod was deleted.  The container used to be Running"
        self.last = {"terminated": _unknown(unknown)}
        self.container_id = self.started_at = self.finished_at = self.reason = self.message = ""
        self.exit_code = None
        self.waiting, self.waiting_message = "ContainerCreating", ""

    def give_up(self) -> None:
        """The pod is over, and nobody ever saw this container end (recording evicted-kubelet-killed)."""
        self.lost = True
        self.exit_code, self.reason = 137, "ContainerStatusUnknown"
        self.message = "The container could not be located when the pod was terminated"

    def document(self) -> Object:
        """The `state` of a containerStatus."""
        if self.exit_code is not None:
            terminated: Object = {"exitCode": self.exit_code, "reason": self.reason}
            if self.message:
                terminated["message"] = self.message
            # A container that failed to start has the epoch there, one that nobody saw end has null
            # (recordings command-not-found, evicted-kubelet-killed).
            terminated["startedAt"] = None if self.lost else self.started_at or _NEVER_STARTED
            terminated["finishedAt"] = None if self.lost else self.finished_at
            if self.container_id:
                terminated["containerID"] = self.container_id
            return {"terminated": terminated}
        if self.running:
            return {"running": {"startedAt": self.started_at}}
        waiting = {"reason": self.waiting}
        if self.waiting_message:
            waiting["message"] = self.waiting_message
        return {"waiting": waiting}


def _unknown(message: str) -> Object:
    return {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": message,
        "startedAt": None,
        "finishedAt": None,
    }


@dataclass(slots=True)
class PodState:
    """What the kubelet knows of one pod."""

    start_time: str
    containers: dict[str, ContainerState]
    init_containers: dict[str, ContainerState]
    address: str = ""
    host_address: str = HOST_ADDRESS
    sandbox_ready: bool = False
    phase: str = "Pending"
    failing: bool = False
    """The deadline has passed: Ready turns PodFailed while the container still runs (recording deadline-exceeded)."""
    final: bool = False
    """The pod worker is done: the phase may become Succeeded or Failed."""
    failed: bool = False
    """The phase is Failed, whatever its containers say (recording evicted-kubelet-killed)."""
    reason: str = ""
    message: str = ""
    conditions: dict[str, Object] = field(default_factory=dict)

    def outcome(self) -> str:
        """Succeeded or Failed where that is decided, else "": the kubelet knows before it says so."""
        if self.failing or self.failed or any(state.exit_code for state in self.init_containers.values()):
            return "Failed"
        ended = [state.exit_code is not None for state in self.containers.values()]
        if not all(ended):
            return ""
        return "Succeeded" if all(state.succeeded for state in self.containers.values()) else "Failed"


def compose(pod: Object, state: PodState, now: str) -> Object:
    """The whole status, in the apiserver's order of fields; a condition that did not change keeps its time."""
    spec, generation = pod["spec"], pod["metadata"]["generation"]
    outcome = state.outcome()
    if state.final:
        # A pod that was ended before its containers were has failed.
        state.phase = outcome or "Failed"
    elif _has_started(state):
        state.phase = "Running"
    status: Object = {"observedGeneration": generation, "phase": state.phase}
    previous = pod.get("status") or {}
    status["conditions"] = _conditions(pod, state, outcome, now)
    if state.message:
        status["message"] = state.message
    if state.reason:
        status["reason"] = state.reason
    status["hostIP"] = state.host_address
    status["hostIPs"] = [{"ip": state.host_address}]
    if state.address:
        status["podIP"] = state.address
        status["podIPs"] = [{"ip": state.address}]
    status["startTime"] = state.start_time
    if state.init_containers:
        status["initContainerStatuses"] = [
            _container_status(container, state.init_containers[container["name"]], pod, initial=True)
            for container in spec["initContainers"]
        ]
    # Sorted by name, whatever the spec's order (recording injected-sidecars).
    status["containerStatuses"] = [
        _container_status(container, state.containers[container["name"]], pod, initial=False)
        for container in sorted(spec["containers"], key=lambda container: str(container["name"]))
    ]
    status["qosClass"] = previous.get("qosClass", "BestEffort")
    resources = pod_resources(spec)
    if requests := resources.get("requests"):
        status["allocatedResources"] = requests
    status["resources"] = resources
    return status


def _has_started(state: PodState) -> bool:
    """Whether the phase is Running: no container waits for its first start (recording injected-sidecars)."""
    if any(container.exit_code is None and not container.started_at for container in state.containers.values()):
        return False
    # One whose start failed never ran (recording command-not-found: Pending until it is Failed).
    return any(container.started_at for container in state.containers.values())


def _container_status(container: Object, state: ContainerState, pod: Object, *, initial: bool) -> Object:
    made = bool(state.container_id)
    status: Object = {
        "name": container["name"],
        "state": state.document(),
        "lastState": state.last,
        "ready": state.succeeded if initial else state.running,
        "restartCount": 1 if state.last else 0,
        "image": container["image"],
        "imageID": container["image"] if made else "",
    }
    if made:
        status["containerID"] = state.container_id
    status["started"] = state.running
    if made:
        resources = container.get("resources") or {}
        if requests := resources.get("requests"):
            status["allocatedResources"] = requests
        status["resources"] = resources
    if mounts := container.get("volumeMounts"):
        status["volumeMounts"] = [_mount_status(mount) for mount in mounts]
    if made:
        context = {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
        asked = context.get("runAsUser")
        user = int(find_image(container["image"]).user or 0 if asked is None else asked)
        group = int(context.get("runAsGroup") or 0)
        status["user"] = {"linux": {"uid": user, "gid": group, "supplementalGroups": [group]}}
    return status


def _mount_status(mount: Object) -> Object:
    status: Object = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        status["readOnly"] = True
        status["recursiveReadOnly"] = "Disabled"
    return status


def _conditions(pod: Object, state: PodState, outcome: str, now: str) -> list[Object]:
    spec, generation = pod["spec"], pod["metadata"]["generation"]
    previous: list[Object] = (pod.get("status") or {}).get("conditions") or []
    unready = [container["name"] for container in spec["containers"] if not state.containers[container["name"]].running]
    readiness: tuple[str, str, str]
    if outcome == "Succeeded":
        readiness = ("False", "PodCompleted", "")
    elif outcome == "Failed":
        readiness = ("False", "PodFailed", "")
    elif unready:
        readiness = ("False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    else:
        readiness = ("True", "", "")
    wanted = {
        "PodReadyToStartContainers": ("True" if state.sandbox_ready else "False", "", ""),
        "Initialized": _initialized(spec.get("initContainers") or [], state, outcome),
        "Ready": readiness,
        "ContainersReady": readiness,
        "PodScheduled": ("True", "", ""),
    }
    before = {condition["type"]: condition for condition in previous}
    # What others have set (DisruptionTarget) stays, and comes first (recording evicted-api-trap-zero).
    kept = [condition for condition in previous if condition["type"] not in wanted]
    return kept + [_condition(kind, told, before.get(kind), generation, now) for kind, told in wanted.items()]


def _initialized(initial: list[Object], state: PodState, outcome: str) -> tuple[str, str, str]:
    incomplete = [container["name"] for container in initial if not state.init_containers[container["name"]].succeeded]
    if incomplete:
        return "False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]"
    return ("True", "PodCompleted", "") if outcome == "Succeeded" else ("True", "", "")


def _condition(kind: str, told: tuple[str, str, str], before: Object | None, generation: int, now: str) -> Object:
    value, reason, message = told
    unchanged = before is not None and before["status"] == value
    condition: Object = {
        "type": kind,
        "observedGeneration": generation,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and unchanged else now,
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def rejected(pod: Object, reason: str, message: str, now: str) -> Object:
    """The status of a pod that its kubelet does not take: what the kubelet says of any other is not there.

    That is why it says nothing of containers, and PodScheduled goes
    (docs/design/pod-states.md#refusals-by-the-kubelet).
    """
    before: Object = pod.get("status") or {}
    kept = [condition for condition in before.get("conditions") or [] if condition["type"] not in KUBELETS_OWN]
    return {
        "observedGeneration": pod["metadata"]["generation"],
        "phase": "Failed",
        **({"conditions": kept} if kept else {}),
        "message": f"Pod was rejected: {message}",
        "reason": reason,
        "startTime": now,
        "qosClass": before.get("qosClass", "BestEffort"),
    }


def scheduled(now: str) -> Object:
    """The condition that the scheduler's binding sets, without an observedGeneration (recording node-lost)."""
    condition = _condition("PodScheduled", ("True", "", ""), None, 0, now)
    del condition["observedGeneration"]
    return condition


def unschedulable(generation: int, now: str, message: str) -> Object:
    """The condition of a pod that fits nowhere (recordings unschedulable-*)."""
    return _condition("PodScheduled", ("False", "Unschedulable", message), None, generation, now)


def disruption(reason: str, message: str, generation: int, now: str) -> Object:
    """DisruptionTarget, the sign that the cluster takes the pod away.

    The eviction API leaves observedGeneration out (recordings evicted-api-trap-zero, tainted-trap-zero).
    """
    condition = _condition("DisruptionTarget", ("True", reason, message), None, generation, now)
    if reason == "EvictionByEvictionAPI":
        del condition["observedGeneration"]
    return condition


def set_disruption(pod: Object, reason: str, message: str, generation: int, now: str) -> None:
    """Give a pod the condition DisruptionTarget, in the place of one that it may have."""
    conditions = [
        condition for condition in pod["status"].get("conditions") or [] if condition["type"] != "DisruptionTarget"
    ]
    conditions.append(disruption(reason, message, generation, now))
    pod["status"]["conditions"] = conditions


def waiting_states(containers: Iterable[Object], reason: str) -> dict[str, ContainerState]:
    """Every container as it is before anything was started."""
    return {container["name"]: ContainerState(waiting=reason) for container in containers}
