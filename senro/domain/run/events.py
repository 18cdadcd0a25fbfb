"""The lines of a run's ledger, `events.jsonl`: one JSON document each, told apart by `event`.

`at` is the coordinator's wall clock, RFC 3339 in UTC with microseconds. `senro.domain.run.state` folds them into what a
run has come to, so whoever has the ledger knows all that the coordinator knew. No event holds a secret's value.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from senro.domain.caches.lookup import Where
from senro.domain.caches.persistent import Bound
from senro.domain.run.outcome import Outcome
from senro.domain.run.state_names import RunState, StepState
from senro.domain.transfer.compression import Coding, Direction


class _Event(msgspec.Struct, frozen=True, tag_field="event", kw_only=True, omit_defaults=True):
    at: str


class RunStarted(_Event, frozen=True, tag="run.started"):
    """The run's folder exists and its plan is written."""

    run: str
    pipeline: str
    steps: tuple[str, ...]
    senro: str


class WorkspaceOpened(_Event, frozen=True, tag="workspace.opened"):
    """A workspace has its first content. `left_out` counts what a snapshot does not carry, `sample` names some.

    `reused`: it is persistent, and what it holds is of runs before.
    """

    workspace: str
    digest: str
    files: int
    bytes: int
    left_out: int = 0
    sample: tuple[str, ...] = ()
    reused: bool = False


class WorkspaceEvicted(_Event, frozen=True, tag="ws.evicted"):
    """A persistent workspace was removed, whole: before the first step at `lease`, after the last one at `release`.

    `limit` is the bound and `measured` what exceeded it, seconds or bytes; of `unfinished` there is neither.
    """

    workspace: str
    bound: Bound
    limit: float
    measured: float
    when: Literal["lease", "release"]


class AttemptStarted(_Event, frozen=True, tag="attempt.started"):
    """An attempt began. `where` is `local` or the namespace of its pod."""

    step: str
    attempt: int
    where: str


class LeaseAwaited(_Event, frozen=True, tag="lease.awaited"):
    """A claim that the attempt mounts is held by somebody else; once more where another holder is seen."""

    step: str
    attempt: int
    workspace: str
    claim: str
    holder: str


class LeaseAcquired(_Event, frozen=True, tag="lease.acquired"):
    """The attempt has the lease of a claim, after `waited` seconds.

    `previous` is the holder whose lease had expired; the attempt itself where it has a lease again that had lapsed.
    """

    step: str
    attempt: int
    workspace: str
    claim: str
    lease: str
    waited: float
    previous: str = ""


class LeaseLost(_Event, frozen=True, tag="lease.lost"):
    """The attempt cannot be certain of a claim's lease any more, or lost it to `holder`. A pod that has it goes on."""

    step: str
    attempt: int
    workspace: str
    claim: str
    message: str
    holder: str = ""


class LeaseReleased(_Event, frozen=True, tag="lease.released"):
    """The attempt is done with a claim. `freed` False: its lease is left to expire, and `message` says why."""

    step: str
    attempt: int
    workspace: str
    claim: str
    lease: str
    freed: bool
    message: str = ""


class PodCreated(_Event, frozen=True, tag="pod.created"):
    """The attempt's pod exists. `adopted`: it was created by a request whose answer was lost."""

    step: str
    attempt: int
    namespace: str
    pod: str
    uid: str
    adopted: bool = False


class PodPending(_Event, frozen=True, tag="pod.pending"):
    """What the pod waits for has changed. `message` is the cluster's own words."""

    step: str
    attempt: int
    kind: str
    container: str = ""
    message: str = ""


class StepRunning(_Event, frozen=True, tag="step.running"):
    """The step's own process was seen running."""

    step: str
    attempt: int
    node: str = ""


class Transferred(_Event, frozen=True, tag="transfer.done"):
    """Every carried mount has crossed. `tries` counts from 1; `seconds` are of the last try.

    `bytes` are those of the archive; `crossed` is what they took on their way, less where `coding` is not `plain`.
    """

    step: str
    attempt: int
    direction: Direction
    bytes: int
    seconds: float
    tries: int
    coding: Coding = "plain"
    crossed: int = 0


class TransferBroken(_Event, frozen=True, tag="transfer.broken"):
    """One try of a transfer failed; it is repeated while the pod lives, three tries in all."""

    step: str
    attempt: int
    direction: Direction
    tries: int
    message: str


class LogEnded(_Event, frozen=True, tag="log.ended"):
    """The attempt's log is closed. `complete` False: something of it may be missing, and `reason` says why."""

    step: str
    attempt: int
    complete: bool
    reason: str = ""


class SnapshotTaken(_Event, frozen=True, tag="workspace.snapshot"):
    """A workspace as a step left it; `digest` names it in the content store."""

    step: str
    attempt: int
    workspace: str
    digest: str
    files: int
    bytes: int
    left_out: int = 0
    sample: tuple[str, ...] = ()


class PodDeleted(_Event, frozen=True, tag="pod.deleted"):
    """The deletion of the attempt's pod. `confirmed` False: it was not seen gone, and `remedy` deletes it by hand."""

    step: str
    attempt: int
    namespace: str
    pod: str
    confirmed: bool
    remedy: str = ""


class ScratchRestored(_Event, frozen=True, tag="scratch.restored"):
    """A scratch cache starts from the entry under `entry`, which is its `key` or begins with a restore key of its."""

    cache: str
    key: str
    entry: str
    where: Where
    files: int
    bytes: int


class ScratchMissed(_Event, frozen=True, tag="scratch.missed"):
    """No entry fits a scratch cache, which starts empty."""

    cache: str
    key: str


class ScratchSaved(_Event, frozen=True, tag="scratch.saved"):
    """What came back from the step is the entry under the key from now on, in the store `where`."""

    cache: str
    key: str
    step: str
    attempt: int
    where: Where
    files: int
    bytes: int


class ScratchNotSaved(_Event, frozen=True, tag="scratch.not-saved"):
    """What the step did to a scratch cache is not saved in the store `where`, and why; the step is unaffected."""

    cache: str
    key: str
    step: str
    attempt: int
    where: Where
    reason: str


class CacheDegraded(_Event, frozen=True, tag="cache.degraded"):
    """The store of `SENRO_REMOTE_SCRATCH` cannot be used; the run goes on without it and asks it nothing more."""

    store: str
    reason: str


class Noted(_Event, frozen=True, tag="note"):
    """Something that a person should know and that changes no state; `step` is empty for what concerns the run."""

    message: str
    step: str = ""


class AttemptEnded(_Event, frozen=True, tag="attempt.ended"):
    """An attempt has its outcome. `again_in` is the wait before the next one in seconds, None where there is none."""

    step: str
    attempt: int
    outcome: Outcome
    again_in: float | None = None


class StepEnded(_Event, frozen=True, tag="step.ended"):
    """A step has its final state. `attempts` is 0 for one that never started."""

    step: str
    state: StepState
    attempts: int


class CancelRequested(_Event, frozen=True, tag="run.cancelling"):
    """The run was asked to stop; steps that have not settled become `cancelled`."""

    reason: str


class RunEnded(_Event, frozen=True, tag="run.ended"):
    """Every step has its final state and everything was cleaned up, or `PodDeleted` says what was not."""

    state: RunState


Event = (
    RunStarted
    | WorkspaceOpened
    | WorkspaceEvicted
    | AttemptStarted
    | LeaseAwaited
    | LeaseAcquired
    | LeaseLost
    | LeaseReleased
    | PodCreated
    | PodPending
    | StepRunning
    | Transferred
    | TransferBroken
    | LogEnded
    | SnapshotTaken
    | PodDeleted
    | ScratchRestored
    | ScratchMissed
    | ScratchSaved
    | ScratchNotSaved
    | CacheDegraded
    | Noted
    | AttemptEnded
    | StepEnded
    | CancelRequested
    | RunEnded
)
"""The closed set."""

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    """The event as one line of the ledger, without its newline. No field can bring one in: JSON escapes it."""
    return _encoder.encode(event)


def decode_event(line: bytes) -> Event:
    """The event of a ledger's line. Raises `ValueError` for anything else; fields that it does not know are ignored."""
    return _decoder.decode(line)


def timestamp(moment: datetime) -> str:
    """`moment`, which has a zone, as events write it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
