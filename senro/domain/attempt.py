"""One try of a step: whose it is, and what of the step it carries into its pod and back."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain import names
from senro.domain.pipeline import Step
from senro.domain.targets import Pod
from senro.domain.workspace import Mount


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    """One try of a step. `attempt` counts from 1; `nonce` is drawn for this attempt and makes its objects ours."""

    run_id: str
    step_id: str
    attempt: int
    nonce: str

    @property
    def name(self) -> str:
        """The name of the pod, and of its Secret."""
        return names.attempt_name(self.run_id, self.step_id, self.attempt, self.nonce)

    @property
    def labels(self) -> dict[str, str]:
        """The labels that are senro's, by which a sweep finds what a dead coordinator left."""
        return {
            names.MANAGED_LABEL: "true",
            names.RUN_LABEL: names.label_value(self.run_id),
            names.STEP_LABEL: names.label_value(self.step_id),
            names.ATTEMPT_LABEL: str(self.attempt),
        }

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that are senro's: the whole step id, and the nonce."""
        return {names.STEP_ID_ANNOTATION: self.step_id, names.ATTEMPT_UID_ANNOTATION: self.nonce}


def carried(step: Step) -> tuple[tuple[int, Mount], ...]:
    """The mounts whose files are carried into the pod, with their index: volume `ws-<n>`, `/senro/ws/<n>`."""
    return tuple(enumerate(step.mounts))


def read_back(step: Step) -> tuple[tuple[int, Mount], ...]:
    """The carried mounts whose files come back: those mounted `rw`."""
    return tuple((index, mount) for index, mount in carried(step) if mount.mode == "rw")


def pod_target(step: Step) -> Pod:
    """The step's target. Raises `TypeError` for a step that runs locally."""
    if not isinstance(step.on, Pod):
        raise TypeError(f"the step {step.id} does not run in a pod")
    return step.on
