"""The services of the application in memory, for unit tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from senro.adapters.fs import FolderContentStore, FolderTrees
from senro.app.attempt import Attempt
from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import Services
from senro.app.runtime.shutdown import CleanupScopes
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.app.workspaces.workspaces import Workspaces
from senro.domain.errors import ClusterError
from senro.domain.kube.pod import Pod, pod_from
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan
from senro.domain.text.redactor import Redactor
from senro.ports.reporter import Reporter, RunSummary
from tests.lib.builders.plans import RUNNER
from tests.lib.fakes.clock import FakeClock, FakeRandomness
from tests.lib.fakes.cluster import RUNNING
from tests.lib.fakes.ledger import RUN_ID, MemoryLedger
from tests.lib.fakes.processes import FakeProcesses

NONCE = "00ff00ff00ff00ff"


class RecordingReporter(Reporter):
    """A reporter that records its calls."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str, int, str]] = []
        self.lines: list[tuple[str, str, str]] = []
        self.notes: list[tuple[str, str]] = []
        self.transfers: list[tuple[str, str, int, int | None]] = []
        self.files: list[int] = []
        self.summary: RunSummary | None = None

    def step_state(self, step_id: str, state: str, *, attempt: int, phase: str = "") -> None:
        self.states.append((step_id, state, attempt, phase))

    def transfer(self, step_id: str, direction: str, done_bytes: int, total_bytes: int | None, files: int = 0) -> None:
        self.transfers.append((step_id, direction, done_bytes, total_bytes))
        self.files.append(files)

    def log_line(self, step_id: str, stream: str, text: str) -> None:
        self.lines.append((step_id, stream, text))

    def note(self, step_id: str, message: str) -> None:
        self.notes.append((step_id, message))

    def run_ended(self, result: RunSummary) -> None:
        self.summary = result


class App:
    """The services and the recorder of a run, with fakes. `folder` is a real folder for the trees."""

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        *,
        secrets: Mapping[str, bytes] | None = None,
        scripts: Mapping[tuple[str, ...], Any] | None = None,
        auto: bool = True,
    ) -> None:
        self.plan = plan
        self.clock = FakeClock(auto=auto)
        self.ledger = MemoryLedger(folder / "runs")
        self.reporter = RecordingReporter()
        self.secrets = dict(secrets or {})
        self.recorder = Recorder(plan, self.ledger, self.reporter, self.clock, Redactor(self.secrets.values()))
        self.processes = FakeProcesses(scripts or {})
        self.services = Services(
            ledger=self.ledger,
            trees=FolderTrees(),
            content=FolderContentStore(str(folder / "cache")),
            processes=self.processes,
            clock=self.clock,
            randomness=FakeRandomness(),
            reporter=self.reporter,
        )
        self.workspaces = Workspaces(self.services, self.recorder, str(folder))
        self.cleanup_scopes = CleanupScopes()

    def attempt(
        self, number: int = 1, *, step: str = "build.make", last: bool = True, mounts: Sequence[MountTransfer] = ()
    ) -> Attempt:
        """Returns an attempt of the step. `mounts`: what `Workspaces.prepare` returned for it."""
        planned = next(planned.step for planned in self.plan.steps if planned.step.id == step)
        return Attempt(
            step=planned,
            identity=AttemptIdentity(run_id=RUN_ID, step_id=step, attempt=number, nonce=NONCE),
            services=self.services,
            recorder=self.recorder,
            workspaces=self.workspaces,
            cleanup_scopes=self.cleanup_scopes,
            last=last,
            mounts=tuple(mounts),
            secrets=self.secrets,
        )


def pod_plan(**fields: Any) -> Plan:
    """Returns a plan of the step `build.make`, in a pod unless `on` is given."""
    pipeline = Pipeline("release")
    fields.setdefault("command", ["make"])
    fields.setdefault("on", RUNNER)
    pipeline.workflow("build").step("make", **fields)
    return pipeline.build()


class ScriptedWatch:
    """A `PodWatch` that returns what the test puts in, and waits while there is nothing."""

    def __init__(self, *seen: Pod | ClusterError | None) -> None:
        self.seen = deque(seen)
        self.polls = 0
        self.nudges = 0
        self._more = anyio.Event()

    def put(self, *seen: Pod | ClusterError | None) -> None:
        self.seen.extend(seen)
        self._more.set()
        self._more = anyio.Event()

    async def next(self) -> Pod | None:
        self.polls += 1
        await anyio.lowlevel.checkpoint()
        while not self.seen:
            await self._more.wait()
        seen = self.seen.popleft()
        if isinstance(seen, ClusterError):
            raise seen
        return seen

    def nudge(self) -> None:
        self.nudges += 1


def pod_with(
    step: Mapping[str, Any] | None = None, *, stage: Mapping[str, Any] | None = None, uid: str = "uid-1", **status: Any
) -> Pod:
    """Returns a pod whose containers have these states; without any it has no status."""
    statuses = [] if step is None else [{"name": "step", "state": step}]
    inits = [] if stage is None else [{"name": "senro-stage", "state": stage}]
    return pod_from(
        {
            "metadata": {"name": "make-1", "namespace": "ci", "uid": uid},
            "spec": {"nodeName": "node-a", "containers": [{"name": "step"}]},
            "status": {"phase": "Pending", "containerStatuses": statuses, "initContainerStatuses": inits, **status},
        }
    )


class SteadyWatch:
    """A `PodWatch` of a pod that changes only by `show`. A nudge makes it return the pod twice."""

    def __init__(self, pod: Pod | None) -> None:
        self._pod = pod
        self._due = 0
        self._more = anyio.Event()

    def show(self, pod: Pod | None) -> None:
        """Sets the pod, and lets the watch return it."""
        self._pod = pod
        self._let(1)

    def nudge(self) -> None:
        self._let(2)

    def _let(self, count: int) -> None:
        self._due += count
        self._more.set()
        self._more = anyio.Event()

    async def next(self) -> Pod | None:
        await anyio.lowlevel.checkpoint()
        while not self._due:
            await self._more.wait()
        self._due -= 1
        return self._pod


WAITING = {"waiting": {"reason": "PodInitializing"}}
STARTED = RUNNING
OVER = {
    "terminated": {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "2026-11-29T10:00:00Z",
        "finishedAt": "2026-11-29T10:00:10Z",
    }
}


async def until(condition: Any) -> None:
    """Lets other tasks run until the condition holds."""
    for _ in range(2000):
        if condition():
            return
        await anyio.lowlevel.checkpoint()
    raise AssertionError("the condition did not hold after 2000 turns")
