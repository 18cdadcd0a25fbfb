"""What every attempt works with, in a pod or on the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import Services
from senro.app.runtime.shutdown import CleanupScopes
from senro.app.workspaces.workspaces import Workspaces
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.pipeline.step import Step
from senro.domain.run.events import TransferBroken, Transferred
from senro.domain.transfer.compression import Coding, Direction


class Moment(TypedDict):
    """When and about which attempt an event is: what every event about one says."""

    at: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of one step. `secrets` maps the names that the step uses to their values; its repr shows none."""

    step: Step
    identity: AttemptIdentity
    services: Services
    recorder: Recorder
    workspaces: Workspaces
    cleanup_scopes: CleanupScopes
    last: bool
    """Whether no further attempt follows a failure of the command: then its workspaces are kept as it left them."""

    secrets: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"<Attempt {self.identity.attempt} of {self.step.id}>"

    @property
    def moment(self) -> Moment:
        """Now, and this attempt, for an event."""
        return {"at": self.recorder.now(), "step": self.step.id, "attempt": self.identity.attempt}

    def phase(self, words: str) -> None:
        """Tell the reporter what the attempt is doing; `words` may quote the cluster."""
        recorder = self.recorder
        words = recorder.redactor.text(words)
        recorder.reporter.step_state(self.step.id, "running", attempt=self.identity.attempt, phase=words)

    def tell(self, message: str) -> None:
        """Tell the reporter something that the ledger has in another form."""
        self.recorder.reporter.note(self.step.id, self.recorder.redactor.text(message))

    async def transfer_broke(self, direction: Direction, tries: int, message: str) -> None:
        """Record that an opening or a try of a transfer failed; `tries` are those that count so far."""
        await self.recorder.record(
            TransferBroken(
                **self.moment,
                direction=direction,
                tries=tries,
                message=message,
            )
        )

    async def transferred(
        self, direction: Direction, size: int, seconds: float, tries: int, *, coding: Coding, crossed: int
    ) -> None:
        """Record that every carried mount has crossed: `size` bytes in `seconds`, with the so-manieth try.

        `crossed` is what they took on their way, packed by `coding`.
        """
        await self.recorder.record(
            Transferred(
                **self.moment,
                direction=direction,
                bytes=size,
                seconds=round(seconds, 3),
                tries=tries,
                coding=coding,
                crossed=crossed,
            )
        )
