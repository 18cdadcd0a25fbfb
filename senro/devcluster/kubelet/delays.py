"""How long the kubelet takes for its steps: the recordings' delays, in relation, made shorter by one factor."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_TIME_SCALE = 0.1
"""A tenth of a real cluster's time."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds of a real kubelet (medians of the recordings), each times `time_scale`."""

    time_scale: float = DEFAULT_TIME_SCALE

    def schedule(self) -> float:
        """POST to PodScheduled (recording killed-by-itself)."""
        return 0.02 * self.time_scale

    def admit(self) -> float:
        """PodScheduled to the kubelet's first status."""
        return 0.04 * self.time_scale

    def sandbox(self, *, volumes: bool) -> float:
        """The first status to a sandbox that is ready; any volume costs a pod about 0.3 s.

        See docs/design/measurements.md#volumes.
        """
        return (0.42 if volumes else 0.12) * self.time_scale

    def start(self) -> float:
        """A sandbox, or the end of an init container, to a container that runs."""
        return 0.06 * self.time_scale

    def relist(self) -> float:
        """An end to its being noticed: the kubelet looks once a second, so half of that."""
        return 0.5 * self.time_scale

    def phase(self) -> float:
        """Terminated to the phase that says so (recordings exit-zero, exit-three)."""
        return 1.1 * self.time_scale

    def removal(self) -> float:
        """The final status of a pod that is being deleted to its removal (recording deleted-trap-zero)."""
        return 0.9 * self.time_scale

    def retry(self) -> float:
        """Between two tries of what could not be set up."""
        return 1.0 * self.time_scale

    def least_grace(self) -> float:
        """The grace that a container is given at least (docs/design/api-rules.md#grace-periods)."""
        return 2.0 * self.time_scale

    def pull_shown(self) -> float:
        """ErrImagePull to ImagePullBackOff: the next look at the pod (recording image-pull-backoff: 13.3 s)."""
        return 13.0 * self.time_scale

    def pull_back_off(self, failures: int) -> float:
        """ImagePullBackOff to the next try after so many failures: 15 s at first, doubled up to five minutes."""
        return float(min(15.0 * 2 ** (failures - 1), 300.0)) * self.time_scale

    def housekeeping(self) -> float:
        """Between two looks at what a pod's volumes hold (recordings evicted-kubelet-*: 38 and 58 s, cached stats)."""
        return 10.0 * self.time_scale

    def lost(self) -> float:
        """The phase of a pod whose container is gone to that container's own end (recording evicted-kubelet-killed)."""
        return 3.0 * self.time_scale

    def node_grace(self) -> float:
        """A node's last word to its being called not ready (recording node-lost: 23.7 s)."""
        return 23.7 * self.time_scale

    def node_return(self) -> float:
        """A kubelet that starts again to its first status (recording node-lost: 1.2 s)."""
        return 1.2 * self.time_scale

    def orphan(self) -> float:
        """A node's removal to the collection of its pods, 40 s.

        See docs/design/pod-states.md#row-158-pod-garbage-collection.
        """
        return 40.0 * self.time_scale

    def reschedule(self) -> float:
        """Between two tries of a pod that fits nowhere."""
        return 1.0 * self.time_scale
