"""One attempt of a step: its names, labels and annotations in the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.kube import names


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
