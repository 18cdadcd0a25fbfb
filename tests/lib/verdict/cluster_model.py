"""A model of a cluster with one pod, which knows when the command ended, and when and how the pod was disrupted.

Three parties write to the pod at different moments: clients of the apiserver (eviction, preemption, taint, deletion);
the kubelet, which reports the containers some time after they changed and the phase some time after that; and the node
controller, which reports an unreachable node. The node's clock differs from the apiserver's by `skew`. Times are
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.lib.verdict.observations import NODE, UID

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)

FINAL_WITHIN = 15.0
"""Seconds within which a kubelet writes the phase after it reported the last end, typically 1 to 3
(docs/design/pod-states.md#row-137-the-phase-comes-after-the-containers)."""

REPORTED_WITHIN = 3.0
"""Seconds within which a kubelet reports an end, since it polls its containers every second
(docs/design/pod-states.md#row-165-lost-exit-codes)."""

OWN_LIMIT = 'Usage of EmptyDir volume "d" exceeds the limit "8Mi". '

BY_KUBELET = {
    # reason, message, and whether DisruptionTarget comes with it (docs/design/pod-states.md#pod-reasons and
    # docs/design/pod-states.md#row-91-terminationbykubelet)
    "limit": ("Evicted", OWN_LIMIT, False),
    "pressure": ("Evicted", "The node was low on resource: memory. ", True),
    "shutdown": ("Terminated", "Pod was terminated in response to imminent node shutdown.", True),
    "critical": ("Preempting", "Preempted in order to admit critical pod", True),
    "deadline": ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline", False),
}

BY_CLIENTS = {
    "evict": "EvictionByEvictionAPI",
    "preempt": "PreemptionByScheduler",
    "taint": "DeletionByTaintManager",
    "delete": "",
}


@dataclass
class Process:
    """The command: the true times of its start and end, and its exit code; None before."""

    started: float | None = None
    ended: float | None = None
    code: int | None = None

    @property
    def alive(self) -> bool:
        return self.started is not None and self.ended is None


class Cluster:
    """The truth, and the pod's document. The methods are the events."""

    def __init__(self, skew: float, *, guarded: bool) -> None:
        self.skew, self.guarded = skew, guarded
        self.now = 0.0
        self.process = Process()
        self.disrupted: float | None = None
        # Whether the command ended before a disruption.
        self.by_command = False
        self.placed = self.lost = self.exists_no_more = self.rebooted = False
        self.kubelet_reason = ""
        self.killed_at = 0.0
        self.metadata: dict[str, Any] = {}
        self.conditions: dict[str, dict[str, Any]] = {}
        self.phase = "Pending"
        self.status: dict[str, Any] = {}
        self.state: dict[str, Any] | None = None
        self.reported_end: float | None = None

    # The truth

    @property
    def final(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def hides_eviction(self) -> bool:
        """Whether nothing shows an eviction for an own limit: the only container ended with 0."""
        return self.kubelet_reason == "limit" and self.process.code == 0

    def _disrupt(self) -> None:
        self.disrupted = self.now if self.disrupted is None else self.disrupted

    # Events

    def wait(self, seconds: float) -> None:
        if self.kubelet_reason and self.process.ended is not None and self.reported_end is None:
            # A kubelet soon reports what it ended itself, and is not lost before (`has_a_secret`).
            left = max(self.process.ended + REPORTED_WITHIN - self.now, 0.0)
            if seconds > left:
                self.now += left
                seconds -= left
                self.report()
        if self.reported_end is not None and not self.final and not self.lost:
            left = self.reported_end + FINAL_WITHIN - self.now
            if seconds > left:
                self.now += max(left, 0.0)
                seconds -= max(left, 0.0)
                self.finalise()
        self.now += seconds

    def place(self) -> None:
        self.placed = True
        self.state = {"waiting": {"reason": "ContainerCreating"}}

    def start(self) -> None:
        self.process.started = self.now

    def end(self, code: int) -> None:
        self.process.ended, self.process.code = self.now, code
        self.by_command = self.disrupted is None

    def mark(self, who: str) -> None:
        """A client of the apiserver marks the pod for disruption."""
        self._disrupt()
        if BY_CLIENTS[who]:
            self._condition("DisruptionTarget", "True", BY_CLIENTS[who], self.now)
        if "deletionTimestamp" not in self.metadata:
            self.metadata = {
                "deletionTimestamp": _stamp(float(int(self.now)) + 30),
                "deletionGracePeriodSeconds": 30,
            }

    def kill(self, why: str) -> None:
        """The kubelet ends the pod, and gives the reason only with the phase."""
        self._disrupt()
        self.kubelet_reason, self.killed_at = why, self.now

    def lose(self) -> None:
        self.lost = True

    def silence(self) -> None:
        """The node controller finds the node unreachable (recording node-lost)."""
        self.conditions["Ready"] = {"type": "Ready", "status": "False", "lastTransitionTime": _stamp(self.now)}

    def reboot(self) -> None:
        """The node restarts: the process is gone, and its exit code is lost."""
        self._disrupt()
        self.lost = False
        if self.process.alive:
            self.process.ended, self.process.code, self.rebooted = self.now, None, True

    def report(self) -> None:
        """The kubelet writes the containers. Ready's reason shows what the pod is about to become.

        See docs/design/pod-states.md#row-83-containersready.
        """
        process, clock = self.process, self.now
        if process.ended is not None:
            self.state = {"terminated": self._end()}
            self.reported_end = clock if self.reported_end is None else self.reported_end
            reason = "PodCompleted" if process.code == 0 else "PodFailed"
            self._condition("Ready", "False", reason, clock + self.skew)
        elif process.started is not None:
            self.state, self.phase = {"running": {"startedAt": self._node(process.started)}}, "Running"
            ready = ("False", "PodFailed") if self.kubelet_reason else ("True", "")
            self._condition("Ready", *ready, clock + self.skew)
            self._condition("ContainersReady", "True", "", clock + self.skew)

    def finalise(self) -> None:
        """The kubelet writes the phase, and the reason that it withheld.

        See docs/design/pod-states.md#row-91-terminationbykubelet and
        docs/design/pod-states.md#row-137-the-phase-comes-after-the-containers.
        """
        process = self.process
        if process.started is None:
            self.state = {"terminated": _invented()}
        self.phase = "Succeeded" if process.code == 0 and process.started is not None else "Failed"
        if self.kubelet_reason:
            reason, message, target = BY_KUBELET[self.kubelet_reason]
            if self.phase == "Failed":
                self.status = {"reason": reason, "message": message}
            if target:
                self._condition("DisruptionTarget", "True", "TerminationByKubelet", self.killed_at + self.skew)

    def remove(self) -> None:
        self.exists_no_more = True

    def force(self) -> None:
        """Somebody deletes the pod without grace. Its kubelet, if it runs, kills the containers at once."""
        self._disrupt()
        self.exists_no_more = True
        if self.process.alive and not self.lost:
            self.process.ended = self.now

    def collect(self) -> None:
        """The Node object is deleted with its machine: only phase and condition are written.

        See docs/design/pod-states.md#row-158-pod-garbage-collection.
        """
        self._disrupt()
        self._condition("DisruptionTarget", "True", "DeletionByPodGC", self.now)
        self.phase = "Failed"
        if self.process.alive:
            self.process.ended = self.now

    # Observations

    def document(self) -> dict[str, Any] | None:
        if self.exists_no_more:
            return None
        volumes = [{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}] if self.guarded else []
        return {
            "metadata": {"name": "p", "namespace": "ci", "uid": UID, **self.metadata},
            "spec": {
                "nodeName": NODE if self.placed else "",
                "containers": [{"name": "step"}],
                # The pod requested it at the start; the model only knows its value once it has passed.
                "activeDeadlineSeconds": int(self.killed_at) if self.kubelet_reason == "deadline" else 86_400,
                "volumes": volumes,
            },
            "status": {
                "phase": self.phase,
                "startTime": _stamp(self.skew),
                "conditions": list(self.conditions.values()),
                "containerStatuses": [] if self.state is None else [{"name": "step", "state": self.state}],
                **self.status,
            },
        }

    def events(self) -> list[dict[str, Any]]:
        """Returns the Events: one before anything is killed, another while a container is stopped.

        See docs/design/pod-states.md#row-129-evicted-event and docs/design/pod-states.md#row-118-killing.
        """
        told: list[tuple[str, str, str, float]] = []
        if self.kubelet_reason and BY_KUBELET[self.kubelet_reason][0] == "Evicted":
            told.append(("Evicted", BY_KUBELET[self.kubelet_reason][1], "", self.killed_at))
        stopped = self.process.started is not None and not (self.by_command or self.lost or self.rebooted)
        if stopped and (self.kubelet_reason or self.metadata):
            at = self.killed_at if self.kubelet_reason else self.disrupted or 0.0
            told.append(("Killing", "Stopping container step", "spec.containers{step}", at))
        return [
            {
                "reason": reason,
                "message": message,
                "involvedObject": {"uid": UID, "fieldPath": path},
                "firstTimestamp": self._node(at),
            }
            for reason, message, path, at in told
        ]

    def _end(self) -> dict[str, Any]:
        started, ended = self.process.started, self.process.ended
        if started is None or ended is None or self.process.code is None:
            return {"exitCode": 255, "reason": "Unknown", "startedAt": self._node(started or 0.0)}
        code = self.process.code
        reason = "Completed" if code == 0 else "Error"
        times = {"startedAt": self._node(started), "finishedAt": self._node(ended)}
        return {"exitCode": code, "reason": reason, **times}

    def _condition(self, kind: str, status: str, reason: str, at: float) -> None:
        """Sets a condition. Its time is that of the last change of status; a new reason does not change it."""
        before = self.conditions.get(kind, {})
        since = before["lastTransitionTime"] if before.get("status") == status else _stamp(at)
        self.conditions[kind] = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}

    def _node(self, at: float) -> str:
        return _stamp(at + self.skew)


def _stamp(at: float) -> str:
    """Returns a time as in the API: whole seconds, truncated."""
    return (NOON + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _invented() -> dict[str, Any]:
    return {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
