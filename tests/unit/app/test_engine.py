"""Runs of the engine against a cluster in memory, with failures of their pods.

More than 500 lines: outcomes, deletions, limits and cancellations share the same sites and moments.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from senro.app.pod import attempt as pod_attempt
from senro.app.pod import cleanup as removal
from senro.app.runtime import shutdown
from senro.domain.errors import ClusterError, StoreError, Unreachable
from senro.domain.kube.pod import Metadata, Pod
from senro.domain.pipeline import retry
from senro.domain.pipeline.targets import Pod as Target
from senro.domain.pipeline.targets import local
from senro.domain.plan.pipeline import Pipeline
from senro.domain.run.events import Noted, PodCreated, PodDeleted, StepEnded, StepRunning
from senro.ports.cluster import Manifest
from tests.lib.builders.plans import IMAGE
from tests.lib.fakes.cluster import ended, refusal, running, waiting
from tests.lib.fakes.processes import Exit, Hang
from tests.lib.harness.app import RecordingReporter, pod_plan, until
from tests.lib.harness.engine import Site, in_turn, runs_for, started_status, stays

pytestmark = pytest.mark.anyio

TOKEN = {"Token": b"hunter2hunter2"}
DISRUPTED = {
    **running(),
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
}


def target(**fields: Any) -> Target:
    return Target(IMAGE, namespace="ci", **fields)


def unreachable() -> ClusterError:
    return Unreachable("read pod", cause="refused", sent=False)


def silent() -> dict[str, Any]:
    """A pod whose kubelet does not report any more: not ready, without a reason, its containers unchanged."""
    return {
        **running(),
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": "True"},
        ],
    }


def failing(site: Site, method: str, error: ClusterError, times: int = 1000) -> None:
    for _ in range(times):
        site.cluster.fail(method, error)


def _is_gone(site: Site, name: str) -> bool:
    return ("ci", name) not in site.cluster.pods


async def test_pod_and_secret_are_created_and_deleted(tmp_path: Path) -> None:
    """A normal run creates one pod and its Secret, deletes both, and leaves nothing to report."""
    site = Site(tmp_path, pod_plan(secrets={"TOKEN": "Token"}), secrets=TOKEN)
    assert await site.run() == "succeeded"
    assert site.nothing_left
    assert site.app.recorder.leftovers == []
    assert site.app.reporter.notes == []


async def reach(condition: Callable[[], object]) -> None:
    """Let other tasks run until the condition holds, for at most ten seconds."""
    with anyio.fail_after(10):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def run_concurrently(*tasks: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run all of them at the same time, for at most twenty seconds."""
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(task)


class TestOwner:
    """Setting the Secret's owner does not affect the step."""

    @pytest.mark.parametrize(
        "error",
        [
            refusal("own secret", 403, "Forbidden", "cannot patch"),
            refusal("own secret", 503, message="no leader"),
        ],
        ids=["403", "503"],
    )
    @pytest.mark.parametrize("code", [0, 3])
    async def test_failed_patch_is_noted(self, tmp_path: Path, error: ClusterError, code: int) -> None:
        """The step's outcome stays, its command ran once, and a note names the Secret without an owner."""
        site = Site(tmp_path, pod_plan(secrets={"TOKEN": "Token"}), secrets=TOKEN, course=stays(waiting(), running()))
        failing(site, "own_secret", error)

        async def end_once_told() -> None:
            await reach(lambda: site.app.reporter.notes)
            (name,) = (name for _, name in site.cluster.pods)
            (step, message), *more = site.app.reporter.notes
            assert step == "build.make"
            assert f"the Secret ci/{name} was given no owner" in message
            assert str(error) in message
            assert not more
            site.cluster.show(site.pod(), ended(code))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(end_once_told)
                state = await site.run()
        assert state == ("failed" if code else "succeeded")
        (outcome,) = site.outcomes
        assert (outcome.kind, outcome.code) == (state, code)
        assert site.cluster.calls.count("create_pod") == 1
        assert site.nothing_left

    async def test_step_may_end_before_the_patch(self, tmp_path: Path) -> None:
        """The attempt does not wait for the patch: the Secret is deleted with its pod."""
        site = Site(tmp_path, pod_plan(secrets={"TOKEN": "Token"}), secrets=TOKEN)
        site.cluster.hang("own_secret")
        with anyio.fail_after(20):
            assert await site.run() == "succeeded"
        assert site.nothing_left


class TestRemoval:
    """What remains in the cluster, and its consequences."""

    async def test_remaining_secret_allows_a_retry(self, tmp_path: Path) -> None:
        """The command to delete the Secret is reported; the pod is gone, so the step is retried."""
        plan = pod_plan(secrets={"TOKEN": "Token"}, retry=retry.on_infra(attempts=2))
        site = Site(tmp_path, plan, secrets=TOKEN, course=in_turn(stays(DISRUPTED, ended(1)), runs_for()))
        site.cluster.fail("own_secret", refusal("own", 403, "Forbidden", "no"))
        site.cluster.fail("delete_secret", refusal("delete secret", 403, "Forbidden", "cannot delete secrets"))
        with anyio.fail_after(20):
            state = await site.run()
        assert [outcome.kind for outcome in site.outcomes] == ["infra", "succeeded"]
        assert state == "succeeded_with_recovery"
        (remedy,) = site.app.recorder.leftovers
        assert remedy.startswith("kubectl --namespace ci delete secret ")
        assert any("cannot delete secrets" in message and remedy in message for _, message in site.app.reporter.notes)

    async def test_remaining_pod_prevents_a_retry(self, tmp_path: Path) -> None:
        """A pod that remains may still run: the step is not retried, and the command to delete it is reported."""
        site = Site(
            tmp_path, pod_plan(retry=retry.on_infra(attempts=2)), course=in_turn(stays(DISRUPTED, ended(1)), runs_for())
        )
        site.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", "cannot delete pods"))
        with anyio.fail_after(20):
            assert await site.run() == "failed"
        (outcome,) = site.outcomes
        assert (outcome.kind, outcome.may_be_alive) == ("infra", True)
        assert len(site.app.recorder.leftovers) == 1

    @pytest.mark.parametrize(
        ("shown", "stage", "did_run"),
        [
            ({}, None, "maybe"),
            ({}, {"waiting": {"reason": "ErrImagePull"}}, "no"),
            ({}, {"terminated": {"exitCode": 0, "startedAt": "2026-11-29T10:00:00Z"}}, "maybe"),
            ({"phase": "Failed", "reason": "NodeAffinity", "containerStatuses": []}, None, "no"),
        ],
        ids=["waits", "is held by its stage", "was released", "is over"],
    )
    async def test_remaining_pending_pod_prevents_a_retry(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        shown: Mapping[str, Any],
        stage: Mapping[str, Any] | None,
        did_run: str,
    ) -> None:
        """A pending pod that remains may still start on some node, unless a missing object prevents it."""
        stages = [{"name": "senro-stage", "state": stage}] if stage else []
        status = {**waiting("ErrImagePull"), "initContainerStatuses": stages, **shown}
        site = Site(tmp_path, pod_plan(retry=retry.on_infra(attempts=2)), course=in_turn(stays(status)))
        create = site.cluster.create_pod

        async def create_with_stage(manifest: Manifest) -> Pod:
            return await create({**manifest, "spec": {**manifest["spec"], "initContainers": [{"name": "senro-stage"}]}})

        if stage:
            monkeypatch.setattr(site.cluster, "create_pod", create_with_stage)
        site.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", "cannot delete pods"))
        with anyio.fail_after(20):
            assert await site.run() == "failed"
        (outcome,) = site.outcomes
        assert (outcome.kind, outcome.did_run, outcome.may_be_alive) == ("infra", did_run, did_run == "maybe")
        assert len(site.app.recorder.leftovers) == 1

    async def test_refused_pod_leaves_nothing(self, tmp_path: Path) -> None:
        """A refused create leaves no pod to report; the Secret is deleted."""
        site = Site(tmp_path, pod_plan(secrets={"TOKEN": "Token"}), secrets=TOKEN)
        site.cluster.fail("create_pod", refusal("create pod", 403, "Forbidden", "cannot create pods"))
        before = site.clock.monotonic()
        with anyio.fail_after(20):
            assert await site.run() == "failed"
        assert not [event for event in site.app.ledger.events if isinstance(event, PodCreated | PodDeleted | Noted)]
        assert site.app.recorder.leftovers == []
        assert site.nothing_left
        assert [(outcome.kind, outcome.did_run, outcome.may_be_alive) for outcome in site.outcomes] == [
            ("infra", "no", False)
        ]
        assert site.cluster.calls.count("read_pod") == 0
        assert site.clock.monotonic() - before < 5

    @pytest.mark.parametrize(
        ("goes", "unsafe", "attempts"),
        [
            ("by itself", False, 1),
            ("by itself", True, 2),
            ("when deleted", False, 2),
            ("never", False, 1),
            ("forced", False, 1),
        ],
    )
    async def test_step_on_a_silent_node_may_be_alive(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes: str, unsafe: bool, attempts: int
    ) -> None:
        """A pod that another client removed, or that was deleted by force, may still run on a silent node."""
        monkeypatch.setattr(pod_attempt, "LOG_DRAIN_SECONDS", 0.01)  # its log never ends
        monkeypatch.setattr("senro.app.runtime.shutdown.FORCE_SECONDS", 0.0)
        plan = pod_plan(retry=retry.on_infra(attempts=2, unsafe=unsafe))
        site = Site(tmp_path, plan, course=in_turn(stays(waiting(), running(), silent()), runs_for()))
        if goes == "never":
            site.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", "cannot delete pods"))
        site.cluster.stubborn = goes == "forced"

        async def cancel() -> None:
            await reach(lambda: bool(site.cluster.graces))
            site.engine.cancel()

        async def vanish() -> None:
            await reach(lambda: any(isinstance(event, StepRunning) for event in site.app.ledger.events))
            seen = site.clock.monotonic()
            await reach(lambda: site.clock.monotonic() >= seen + 30)
            site.cluster.vanish(site.pod())

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                if goes == "by itself":
                    group.start_soon(vanish)
                if goes == "forced":
                    group.start_soon(cancel)
                await site.run()
        first = site.outcomes[0]
        assert (first.kind, first.may_be_alive) == ("infra", goes != "when deleted")
        assert len(site.outcomes) == attempts


class TestLimits:
    """The limits of jobs and of a target's pods."""

    @pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
    async def test_waiting_for_the_pod_limit_takes_no_job(self, tmp_path: Path, order: tuple[str, ...]) -> None:
        """With two jobs and one pod at a time, a local step runs while the second pod waits for the first."""
        pipeline = Pipeline("release")
        workflow = pipeline.workflow("build")
        one = target(max_pods=1)
        for name in order:
            workflow.step(name, ["true"], on=local() if name == "c" else one)
        site = Site(
            tmp_path,
            pipeline.build(),
            jobs=2,
            course=stays(waiting(), running()),
            scripts={("true",): [Exit(0)]},
        )

        async def end_pods_after_c() -> None:
            def c_has_ended() -> bool:
                return any(isinstance(event, StepEnded) and event.step == "build.c" for event in site.app.ledger.events)

            await reach(c_has_ended)
            for _ in range(2):
                await reach(lambda: site.cluster.pods)
                pod = site.pod()
                site.cluster.show(pod, ended())
                await reach(partial(_is_gone, site, pod.name))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(end_pods_after_c)
                assert await site.run() == "succeeded"

    async def test_max_pods_counts_until_deletion(self, tmp_path: Path) -> None:
        """`max_pods` counts pods until they are seen gone, not until their step has ended."""
        pipeline = Pipeline("release")
        workflow = pipeline.workflow("w")
        for name in ("a", "b", "c"):
            workflow.step(name, ["true"], on=target(max_pods=1))
        site = Site(tmp_path, pipeline.build())
        site.cluster.stubborn = True
        most = 0
        create = site.cluster._create_pod

        def counted(manifest: Any) -> Pod:
            nonlocal most
            made = create(manifest)
            most = max(most, len(site.cluster.pods))
            return made

        site.cluster._create_pod = counted  # type: ignore[method-assign]  # counts what is there after each create
        with anyio.fail_after(20):
            assert await site.run() == "succeeded"
        assert most == 1


class Bursts(RecordingReporter):
    """A reporter that fails in one of its methods."""

    def __init__(self, method: str, when: Callable[..., bool]) -> None:
        super().__init__()

        def burst(*words: Any, **more: Any) -> None:
            if when(*words, **more):
                raise LookupError("the reporter's own mistake")

        setattr(self, method, burst)


BURSTS: list[tuple[str, Callable[..., bool]]] = [
    ("step_state", lambda *_, phase="", **__: phase == "running"),
    ("step_state", lambda *_, phase="", **__: phase.startswith("waiting")),
    ("log_line", lambda *_, **__: True),
    ("note", lambda *_, **__: True),
]


@pytest.mark.parametrize(("method", "when"), BURSTS, ids=["running", "waiting", "log", "note"])
async def test_failing_reporter_leaves_no_pod(tmp_path: Path, method: str, when: Callable[..., bool]) -> None:
    """Its error is raised after everything was deleted, also with concurrent steps."""
    pipeline = Pipeline("release")
    pipeline.workflow("build").step("make", ["make"], on=target(), secrets={"TOKEN": "Token"})
    pipeline.workflow("build2").step("long", ["long"], on=target())
    site = Site(tmp_path, pipeline.build(), secrets=TOKEN, course=stays(waiting(), running(), running()))
    reporter = Bursts(method, when)
    site.app.recorder.reporter = reporter
    object.__setattr__(site.app.services, "reporter", reporter)
    if method == "note":
        site.cluster.fail("own_secret", refusal("own", 403, "Forbidden", "no"))

    async def talk() -> None:
        await reach(lambda: site.cluster.pods)
        for (namespace, name), stored in list(site.cluster.pods.items()):
            pod = Pod(metadata=Metadata(namespace=namespace, name=name, uid=stored["metadata"]["uid"]))
            site.cluster.log(pod).add(b"2026-11-29T10:00:00.000000000Z hello\n")

    with pytest.raises(ExceptionGroup) as caught:
        await run_concurrently(talk, site.run)
    assert caught.group_contains(LookupError)
    assert site.nothing_left


async def test_failing_ledger_leaves_no_pod(tmp_path: Path) -> None:
    """The store's error is raised, and the pod is deleted although the deletion cannot be recorded."""
    site = Site(tmp_path, pod_plan(), course=stays(waiting(), running()))

    async def fill() -> None:
        await reach(lambda: any(isinstance(event, StepRunning) for event in site.app.ledger.events))
        site.app.ledger.broken = StoreError("events.jsonl", "No space left on device")
        site.cluster.show(site.pod(), ended())

    with pytest.raises(ExceptionGroup) as caught:
        await run_concurrently(fill, site.run)
    assert caught.group_contains(StoreError)
    assert site.nothing_left


class TestCancellation:
    """A run that is cancelled, by `cancel` or by the cancellation of its task."""

    @pytest.mark.parametrize("how", ["engine", "task"])
    @pytest.mark.parametrize(("status", "ran"), [(waiting(), "maybe"), (running(), "yes")], ids=["waiting", "running"])
    async def test_a_cancelled_attempt_says_whether_it_ran(
        self, tmp_path: Path, how: str, status: dict[str, Any], ran: str
    ) -> None:
        """`did_run` is `yes` if the step was seen running, else `maybe`: it may have started since."""
        site = Site(tmp_path, pod_plan(), course=stays(status))

        async def cancel() -> None:
            await reach(lambda: "follow_log" in site.cluster.calls or site.cluster.calls.count("read_pod") >= 5)
            if how == "engine":
                site.engine.cancel()
            else:
                group.cancel_scope.cancel()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(cancel)
                await site.run()
        assert [(outcome.kind, outcome.did_run) for outcome in site.outcomes] == [("cancelled", ran)]
        assert site.nothing_left

    async def test_a_cancelled_local_step_ran(self, tmp_path: Path) -> None:
        """`did_run` is `yes` for a local step, whose process was started."""
        site = Site(tmp_path, pod_plan(on=local()), scripts={("make",): [Hang()]})
        async with anyio.create_task_group() as group:
            group.start_soon(site.run)
            await until(lambda: site.app.processes.running == 1)
            site.engine.cancel()
        assert [(outcome.kind, outcome.did_run) for outcome in site.outcomes] == [("cancelled", "yes")]

    async def test_second_attempt_that_never_ran(self, tmp_path: Path) -> None:
        """The first attempt does not affect `did_run` of the second."""
        site = Site(
            tmp_path,
            pod_plan(retry=retry.on_infra(attempts=2)),
            course=in_turn(stays(running(), DISRUPTED, DISRUPTED, DISRUPTED, ended(1)), stays(waiting())),
        )

        async def cancel() -> None:
            def begun() -> int:
                return sum(isinstance(event, PodCreated) for event in site.app.ledger.events)

            await reach(lambda: begun() == 2)
            site.engine.cancel()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(cancel)
                await site.run()
        assert [(outcome.kind, outcome.did_run) for outcome in site.outcomes] == [
            ("infra", "yes"),
            ("cancelled", "maybe"),
        ]

    @pytest.mark.parametrize("others", [False, True], ids=["alone", "beside"])
    async def test_cancellation_shortens_background_deletions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: bool
    ) -> None:
        """The pod of a success is deleted in the background; a cancellation of the caller shortens that."""
        monkeypatch.setattr(shutdown, "FORCE_SECONDS", 0.0)
        pipeline = Pipeline("release")
        pipeline.workflow("build").step("make", ["make"], on=target(grace=3600))
        if others:
            pipeline.workflow("other").step("long", ["long"])
        site = Site(tmp_path, pipeline.build(), scripts={("long",): [Hang()]}, auto=False)
        site.cluster.stubborn = True

        async def cancel() -> None:
            while not any(isinstance(event, StepEnded) for event in site.app.ledger.events):
                await site.clock.advance(0.5)
            await site.clock.advance(0.5)
            assert site.cluster.pods
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await site.clock.advance(1)

        with anyio.fail_after(removal.CONFIRM_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(cancel)
                await site.run()
        assert site.app.cleanup_scopes.shortened
        assert site.nothing_left
        assert site.cluster.graces == [None, 0]


class TestTimeout:
    """The timeout of a step counts from its container's start, as far as that is plausible."""

    @pytest.mark.parametrize(
        ("ran", "hidden", "left"),
        [(90, 100, 30), (100, 100, 20), (500, 100, 20), (-50, 100, 120), (300, 300, 0), (0, 0, 120)],
        ids=["late", "all of it", "a clock ahead", "a clock behind", "long over", "at once"],
    )
    async def test_timeout_after_an_outage(self, tmp_path: Path, ran: int, hidden: int, left: int) -> None:
        """A step that is seen running late has the rest of its 120 s, but not less than the unobserved gap allows."""
        seen: list[float] = []

        class Late:
            """A watch that shows nothing for a while, then the pod once a second."""

            def __init__(self, namespace: str, name: str, uid: str) -> None:
                self._where, self._uid, self._looks = (namespace, name), uid, 0

            async def next(self) -> Pod | None:
                self._looks += 1
                await site.clock.sleep(hidden if self._looks == 1 else 1)
                if self._looks == 1:
                    site.cluster.show(site.pod(), started_status(site.clock, ran))
                    seen.append(site.clock.monotonic())
                return await site.cluster.read_pod(*self._where)

            def nudge(self) -> None:
                pass

        site = Site(tmp_path, pod_plan(timeout=120), course=stays(waiting()), watch=Late)
        requested_at: list[float] = []
        delete = site.cluster._delete_pod

        def noted(key: tuple[str, str], uid: str, grace_seconds: int | None) -> bool:
            requested_at.append(site.clock.monotonic())
            return delete(key, uid, grace_seconds)

        site.cluster._delete_pod = noted  # type: ignore[method-assign]  # notes when it was asked for
        with anyio.fail_after(20):
            assert await site.run() == "failed"
        assert [outcome.kind for outcome in site.outcomes] == ["timed_out"]
        assert left - 1.5 <= requested_at[0] - seen[0] <= left + 1.5
        assert site.nothing_left
