"""Records each event of a run: in the ledger, in the progress of the run, and for the reporter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import msgspec

from senro.domain.caches.persistent import Eviction
from senro.domain.plan.plan import Plan
from senro.domain.run.events import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    Event,
    Noted,
    RemoteCacheDisabled,
    ScratchNotSaved,
    ScratchRestored,
    ScratchSaved,
    StepEnded,
    StepRunning,
    WorkspaceEvicted,
    encode_event,
    timestamp,
)
from senro.domain.run.state import Progress, at_start, fold
from senro.domain.text.redactor import Redactor
from senro.ports.clock import Clock
from senro.ports.ledger import RunLedger
from senro.ports.reporter import Reporter


class Recorder:
    """Writes events to the ledger before they take effect.

    Texts that quote the cluster or a command are masked before they are encoded. Masking the encoded line would miss a
    value with a quote, which is escaped there, and would break the ledger for a value that equals a field's name.

    `progress`: the fold of all events.
    """

    def __init__(self, plan: Plan, ledger: RunLedger, reporter: Reporter, clock: Clock, redactor: Redactor) -> None:
        self._ledger = ledger
        self._clock = clock
        self.reporter = reporter
        self.redactor = redactor
        self.progress: Progress = at_start(plan)
        self._changed = anyio.Event()
        self._began: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._running: set[str] = set()
        self.leftovers: list[str] = []
        """Commands that delete the objects which senro could not delete."""

    def now(self) -> str:
        """The wall clock, as events write it."""
        return timestamp(self._clock.now())

    async def record(self, event: Event) -> None:
        """Append the event to the ledger, fold it, and report it. A cancellation does not interrupt this."""
        event = _mask(event, self.redactor)
        with anyio.CancelScope(shield=True):
            await self._ledger.append(encode_event(event))
        self.progress = fold(self.progress, event)
        match event:
            case AttemptStarted(step=step):
                self._began.setdefault(step, self._clock.monotonic())
                self._running.discard(step)
            case StepRunning(step=step):
                self._running.add(step)
            case StepEnded(step=step, state=state, attempts=attempts):
                self._ended[step] = self._clock.monotonic()
                self.reporter.step_state(step, state, attempt=attempts)
            case Noted(step=step, message=message):
                self.reporter.note(step, message)
            case WorkspaceEvicted():
                reason = Eviction(event.bound, event.limit, event.measured)
                self.reporter.note("", f"the persistent workspace {event.workspace} is evicted: {reason}")
            case ScratchRestored() | ScratchSaved() | ScratchNotSaved() | RemoteCacheDisabled():
                self.reporter.note(*_cache_note(event))
            case CancelRequested(reason=reason):
                self.reporter.note("", f"cancelling: {reason}")
            case _:
                pass
        self._changed.set()
        self._changed = anyio.Event()

    def seconds(self, step: str) -> float | None:
        """Seconds from the start of the step's first attempt to its end or to now; None if it never started."""
        if step not in self._began:
            return None
        return self._ended.get(step, self._clock.monotonic()) - self._began[step]

    def was_running(self, step: str) -> bool:
        """Whether the latest attempt of the step was seen running."""
        return step in self._running

    async def note(self, message: str, *, step: str = "") -> None:
        """Record a message for people, which changes no state."""
        await self.record(Noted(at=self.now(), message=message, step=step))

    async def until(self, condition: Callable[[Progress], bool]) -> None:
        """Wait until `condition` holds for the progress."""
        while not condition(self.progress):
            await self._changed.wait()


def _cache_note(event: ScratchRestored | ScratchSaved | ScratchNotSaved | RemoteCacheDisabled) -> tuple[str, str]:
    """The step and the text of the note for an event about a cache."""
    place = {"local": "in the cache folder", "remote": "in the shared store"}
    match event:
        case RemoteCacheDisabled(store=store, reason=reason):
            return "", f"continues without the scratch store {store}: {reason}"
        case ScratchRestored(cache=cache, entry_key=entry, store=where, files=files, bytes=size):
            return "", f"scratch cache {cache}: {files} files, {size} bytes restored from {entry} {place[where]}"
        case ScratchSaved(cache=cache, key=key, step=step, store=where):
            return step, f"scratch cache {cache}: saved as {key} {place[where]}"
        case ScratchNotSaved(cache=cache, key=key, step=step, store=where, reason=reason):
            return step, f"scratch cache {cache}: not saved as {key} {place[where]}: {reason}"


MASKED_FIELDS = ("message", "reason", "omitted_sample", "holder", "previous_holder")
"""The fields of events that may quote the cluster, a command or a file name."""


def _mask(event: Event, redactor: Redactor) -> Event:
    changed: dict[str, Any] = {}
    for name in MASKED_FIELDS:
        value = getattr(event, name, None)
        if isinstance(value, str):
            changed[name] = redactor.text(value)
        elif value is not None:
            changed[name] = tuple(redactor.text(part) for part in value)
    if isinstance(event, AttemptEnded):
        changed["outcome"] = replace(event.outcome, message=redactor.text(event.outcome.message))
    return msgspec.structs.replace(event, **changed)
