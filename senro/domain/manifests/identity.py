"""One attempt of a step: its names, labels and annotations in the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.kube import names


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    """An attempt of a step.

    `run_id`, `step_id`: the run and the step.
    `attempt`: the number of the attempt, from 1.
    `nonce`: a random text, by which senro recognizes the objects of the attempt.
    """

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
        """The labels of senro, which find the objects that a killed coordinator left."""
        return {
            names.MANAGED_LABEL: "true",
            names.RUN_LABEL: names.label_value(self.run_id),
            names.STEP_LABEL: names.label_value(self.step_id),
            names.ATTEMPT_LABEL: str(self.attempt),
        }

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of senro: the step id, and the nonce."""
        return {names.STEP_ID_ANNOTATION: self.step_id, names.ATTEMPT_UID_ANNOTATION: self.nonce}
