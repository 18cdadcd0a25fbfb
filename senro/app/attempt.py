"""The step, services and identity of an attempt, in a pod or on the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import Services
from senro.app.runtime.shutdown import CleanupScopes
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.app.workspaces.workspaces import Workspaces
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.pipeline.step import Step
from senro.ports.reporter import Stream


class EventFields(TypedDict):
    """The fields that every event about an attempt has."""

    at: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of one step, and the services that it uses. The repr shows no secret.

    `last`: whether no attempt follows if the command fails; the changes to its workspaces are then kept.
    `mounts`: the step's mounts as `Workspaces.prepare` returned them; claims are not among them.
    `secrets`: the values of the secrets that the step uses, by their names.
    """

    step: Step
    identity: AttemptIdentity
    services: Services
    recorder: Recorder
    workspaces: Workspaces
    cleanup_scopes: CleanupScopes
    last: bool
    mounts: tuple[MountTransfer, ...]
    secrets: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"<Attempt {self.identity.attempt} of {self.step.id}>"

    @property
    def event_fields(self) -> EventFields:
        """The fields of an event about this attempt that happens now."""
        return {"at": self.recorder.now(), "step": self.step.id, "attempt": self.identity.attempt}

    def report_phase(self, text: str) -> None:
        """Report what the attempt is doing. Masks secrets in `text`, which may quote the cluster."""
        recorder = self.recorder
        text = recorder.redactor.text(text)
        recorder.reporter.step_state(self.step.id, "running", attempt=self.identity.attempt, phase=text)

    def report_note(self, message: str) -> None:
        """Report a note that is not recorded in the ledger, masked as in `report_phase`."""
        self.recorder.reporter.note(self.step.id, self.recorder.redactor.text(message))

    def report_line(self, stream: Stream, text: bytes, *, ended: bool) -> bytes:
        """Report a line of the log, or a part of one, that is masked already. Returns the bytes for the log file."""
        if text or ended:
            self.recorder.reporter.log_line(self.step.id, stream, text.decode("utf-8", "replace"))
        return text + (b"\n" if ended else b"")
