"""The events of a run, as in `events.jsonl`: one JSON document per line, whose field `event` is its kind.

Every event has `at`, the coordinator's wall clock as RFC 3339 in UTC with microseconds. The events of a step have its
id as `step` and count its attempts from 1 as `attempt`. Fields that have their default value are left out of the JSON.
`senro.domain.run.state` folds the events into the state of the run, so the ledger holds everything that the coordinator
knew. No event holds the value of a secret.
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


class _AttemptEvent(_Event, frozen=True):
    step: str
    attempt: int


class _LeaseEvent(_AttemptEvent, frozen=True):
    """`workspace`: the workspace that the claim replaces. `claim`: the name of the PersistentVolumeClaim."""

    workspace: str
    claim: str


class _ScratchEvent(_Event, frozen=True):
    """`cache`: the cache's name. `key`: the cache's key in this run."""

    cache: str
    key: str


class RunStarted(_Event, frozen=True, tag="run.started"):
    """The run's folder exists and the plan is written to it.

    `run`: the run's id.
    `pipeline`: the pipeline's name.
    `steps`: the ids of all steps, in the plan's order.
    `senro_version`: the version of senro that runs the plan.
    """

    run: str
    pipeline: str
    steps: tuple[str, ...]
    senro_version: str


class WorkspaceOpened(_Event, frozen=True, tag="workspace.opened"):
    """A workspace has its first content.

    `workspace`: its name.
    `digest`: the digest of the snapshot.
    `files`, `bytes`: the number of its files and their size.
    `omitted`: how many entries of the folder a snapshot cannot hold, such as sockets.
    `omitted_sample`: some of these, each as `<path>: <what it is>`.
    `reused`: the workspace is persistent, and an earlier run left this content.
    """

    workspace: str
    digest: str
    files: int
    bytes: int
    omitted: int = 0
    omitted_sample: tuple[str, ...] = ()
    reused: bool = False


class WorkspaceEvicted(_Event, frozen=True, tag="workspace.evicted"):
    """The content of a persistent workspace was deleted.

    `workspace`: its name.
    `bound`: the bound that the content exceeded, or `unfinished`.
    `limit`, `measured`: the bound and the value that exceeded it, in seconds or bytes; both 0 for `unfinished`.
    `when`: before the run's first step, or after its last.
    """

    workspace: str
    bound: Bound
    limit: float
    measured: float
    when: Literal["before_run", "after_run"]


class AttemptStarted(_AttemptEvent, frozen=True, tag="attempt.started"):
    """An attempt of a step began.

    `location`: `local`, or the namespace of the pod.
    """

    location: str


class LeaseAwaited(_LeaseEvent, frozen=True, tag="lease.awaited"):
    """Another holder has the Lease of a claim that the attempt mounts. Recorded again for each new holder.

    `holder`: who has the Lease.
    """

    holder: str


class LeaseAcquired(_LeaseEvent, frozen=True, tag="lease.acquired"):
    """The attempt holds the Lease of a claim.

    `lease`: the name of the Lease.
    `waited_seconds`: how long the attempt waited for it.
    `previous_holder`: the holder whose Lease had expired, which may be this attempt itself; else empty.
    """

    lease: str
    waited_seconds: float
    previous_holder: str = ""


class LeaseLost(_LeaseEvent, frozen=True, tag="lease.lost"):
    """The attempt no longer holds the Lease of a claim exclusively. A pod that mounts the claim keeps running.

    `message`: why, for people.
    `holder`: who has the Lease now, empty if that is unknown.
    """

    message: str
    holder: str = ""


class LeaseReleased(_LeaseEvent, frozen=True, tag="lease.released"):
    """The attempt no longer needs a claim.

    `lease`: the name of the Lease.
    `freed`: True if the Lease was deleted, False if it is left to expire.
    `message`: why it is left to expire.
    """

    lease: str
    freed: bool
    message: str = ""


class PodCreated(_AttemptEvent, frozen=True, tag="pod.created"):
    """The attempt's pod exists.

    `namespace`, `pod`, `uid`: its namespace, name and UID.
    `adopted`: the response to the request that created it was lost, and senro found the pod afterwards.
    """

    namespace: str
    pod: str
    uid: str
    adopted: bool = False


class PodPending(_AttemptEvent, frozen=True, tag="pod.pending"):
    """The reason for which the pod does not run yet has changed.

    `kind`: the value of a `PendingKind`.
    `container`: the container that waits, empty if it is the whole pod.
    `message`: the message of the cluster.
    """

    kind: str
    container: str = ""
    message: str = ""


class StepRunning(_AttemptEvent, frozen=True, tag="step.running"):
    """The pod's status showed the step's container running.

    `node`: the name of the node.
    """

    node: str = ""


class TransferCompleted(_AttemptEvent, frozen=True, tag="transfer.completed"):
    """All mounts of the attempt were uploaded, or downloaded.

    `direction`: `upload` or `download`.
    `bytes`: the size of the archive.
    `seconds`: how long the last try took.
    `tries`: the number of tries, at least 1.
    `coding`: how the archive was compressed.
    `wire_bytes`: the bytes that were sent, fewer than `bytes` if the archive was compressed.
    """

    direction: Direction
    bytes: int
    seconds: float
    tries: int
    coding: Coding = "plain"
    wire_bytes: int = 0


class TransferTryFailed(_AttemptEvent, frozen=True, tag="transfer.try-failed"):
    """One try of a transfer failed. senro repeats it while the pod lives, at most three times in all.

    `direction`: `upload` or `download`.
    `tries`: how many tries have failed; 0 if the exec could not be opened, which is no try.
    `message`: why it failed.
    """

    direction: Direction
    tries: int
    message: str


class LogEnded(_AttemptEvent, frozen=True, tag="log.ended"):
    """The attempt's log file is closed.

    `complete`: False if lines may be missing.
    `reason`: why lines may be missing.
    """

    complete: bool
    reason: str = ""


class SnapshotTaken(_AttemptEvent, frozen=True, tag="workspace.snapshot"):
    """A workspace as an attempt left it is in the content store. For the fields see `WorkspaceOpened`."""

    workspace: str
    digest: str
    files: int
    bytes: int
    omitted: int = 0
    omitted_sample: tuple[str, ...] = ()


class PodDeleted(_AttemptEvent, frozen=True, tag="pod.deleted"):
    """senro deleted the attempt's pod.

    `namespace`, `pod`: its namespace and name.
    `confirmed`: whether the pod was seen gone.
    `remedy`: the command that deletes it by hand, empty if that is not needed.
    """

    namespace: str
    pod: str
    confirmed: bool
    remedy: str = ""


class ScratchRestored(_ScratchEvent, frozen=True, tag="scratch.restored"):
    """The run restored a scratch cache from an entry of a store.

    `entry_key`: the key of the entry: `key` itself, or one that begins with a restore key.
    `store`: the store that had the entry.
    `files`, `bytes`: the number of its files and their size.
    """

    entry_key: str
    store: Where
    files: int
    bytes: int


class ScratchMissed(_ScratchEvent, frozen=True, tag="scratch.missed"):
    """No store has a usable entry for a scratch cache, which starts empty."""


class ScratchSaved(_ScratchEvent, frozen=True, tag="scratch.saved"):
    """The content that a step left in a scratch cache was saved under the cache's key.

    `store`: the store that has the entry now.
    `files`, `bytes`: the number of its files and their size.
    """

    step: str
    attempt: int
    store: Where
    files: int
    bytes: int


class ScratchNotSaved(_ScratchEvent, frozen=True, tag="scratch.not-saved"):
    """The content that a step left in a scratch cache was not saved. The step's outcome does not change.

    `store`: the store that does not have the entry.
    `reason`: why it was not saved.
    """

    step: str
    attempt: int
    store: Where
    reason: str


class RemoteCacheDisabled(_Event, frozen=True, tag="scratch.remote-disabled"):
    """The store of `SENRO_REMOTE_SCRATCH` failed. The run continues without it and sends it no more requests.

    `store`: the store's address.
    `reason`: how it failed.
    """

    store: str
    reason: str


class Noted(_Event, frozen=True, tag="note"):
    """A message for people that changes no state.

    `step`: the step that it concerns, empty if it concerns the run.
    """

    message: str
    step: str = ""


class AttemptEnded(_AttemptEvent, frozen=True, tag="attempt.ended"):
    """An attempt has its outcome.

    `outcome`: the outcome, a document of its own.
    `retry_in`: seconds until the next attempt starts, None if there is none.
    """

    outcome: Outcome
    retry_in: float | None = None


class StepEnded(_Event, frozen=True, tag="step.ended"):
    """A step has its final state.

    `attempts`: the number of attempts, 0 for a step that never started.
    """

    step: str
    state: StepState
    attempts: int


class CancelRequested(_Event, frozen=True, tag="run.cancel-requested"):
    """The run was asked to stop. Steps without a final state become `cancelled`.

    `reason`: what asked for it, such as a signal.
    """

    reason: str


class RunEnded(_Event, frozen=True, tag="run.ended"):
    """Every step has its final state, and everything was cleaned up except what a `PodDeleted` names."""

    state: RunState


# The formatter would write one line for each.
# fmt: off
Event = (
    RunStarted | WorkspaceOpened | WorkspaceEvicted | AttemptStarted | LeaseAwaited | LeaseAcquired | LeaseLost |
    LeaseReleased | PodCreated | PodPending | StepRunning | TransferCompleted | TransferTryFailed | LogEnded |
    SnapshotTaken | PodDeleted | ScratchRestored | ScratchMissed | ScratchSaved | ScratchNotSaved |
    RemoteCacheDisabled | Noted | AttemptEnded | StepEnded | CancelRequested | RunEnded
)
# fmt: on
"""Every kind of event; no others exist."""

_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def encode_event(event: Event) -> bytes:
    """Returns the event as a line of the ledger, without a newline at its end. JSON escapes newlines in fields."""
    return _encoder.encode(event)


def decode_event(line: bytes) -> Event:
    """Returns the event of a line of the ledger. Ignores unknown fields. Raises `ValueError` for anything else."""
    return _decoder.decode(line)


def timestamp(moment: datetime) -> str:
    """Returns `moment`, which has a time zone, in the format of `at`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
