"""How long the kubelet takes for its steps: the recordings' delays, in relation, made shorter by one factor."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_PACE = 0.1
"""A tenth of a real cluster's time."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds of a real kubelet (medians of the recordings and facts/measured.md), each times `pace`."""

    pace: float = DEFAULT_PACE

    def schedule(self) -> float:
        """POST to PodScheduled (recording killed-by-itself)."""
        return 0.02 * self.pace

    def admit(self) -> float:
        """PodScheduled to the kubelet's first status."""
        return 0.04 * self.pace

    def sandbox(self, *, volumes: bool) -> float:
        """The first status to a sandbox that is ready; any volume costs a pod about 0.3 s (facts/measured.md)."""
        return (0.42 if volumes else 0.12) * self.pace

    def start(self) -> float:
        """A sandbox, or the end of an init container, to a container that runs."""
        return 0.06 * self.pace

    def relist(self) -> float:
        """An end to its being noticed: the kubelet looks once a second, so half of that."""
        return 0.5 * self.pace

    def phase(self) -> float:
        """Terminated to the phase that says so (recordings exit-zero, exit-three)."""
        return 1.1 * self.pace

    def removal(self) -> float:
        """The final status of a pod that is being deleted to its removal (recording deleted-trap-zero)."""
        return 0.9 * self.pace

    def retry(self) -> float:
        """Between two tries of what could not be set up."""
        return 1.0 * self.pace

    def least_grace(self) -> float:
        """The grace that a container is given at least (facts/api-rules.md section 3)."""
        return 2.0 * self.pace
