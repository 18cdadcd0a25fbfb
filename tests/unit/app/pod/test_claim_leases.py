"""The claims of an attempt in runs against a cluster in memory: acquired, renewed, lost and released.

More than 500 lines: all tests share a plan, a rival and a table of moments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from senro.app.pod.deletion import UNACKNOWLEDGED_SECONDS
from senro.domain.claims.lease import Terms
from senro.domain.errors import ClusterError, Unreachable
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.pipeline import retry
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import Workspace
from senro.domain.plan.pipeline import Pipeline
from senro.domain.run.events import (
    LeaseAcquired,
    LeaseAwaited,
    LeaseLost,
    LeaseReleased,
    PodCreated,
    PodDeleted,
    PodPending,
)
from senro.ports.cluster import Manifest
from tests.lib.builders.leases import lease_of
from tests.lib.builders.plans import IMAGE
from tests.lib.fakes.cluster import ended, refusal, running, waiting
from tests.lib.harness.app import until
from tests.lib.harness.engine import Site, in_turn, runs_for, stays

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 29, tzinfo=UTC)
HELD = Terms("ci", "cache", "senro-cache", AttemptIdentity("other-run", "w.s", 1, "ff"))


def plan_of(*, mounts: tuple[str, ...] = ("cache",), mode: Any = "rw", of_step: Any = None, **fields: Any) -> Any:
    """A plan of the step `build.make` in a pod that mounts claims."""
    pipeline = Pipeline("release")
    fields = {"claims": {name: f"senro-{name}" for name in mounts}, **fields}
    mounted = [Workspace(name).at(f"/{name}", mode) for name in mounts]
    step = of_step or {}
    pipeline.workflow("build").step("make", ["make"], mounts=mounted, on=Pod(IMAGE, namespace="ci", **fields), **step)
    return pipeline.build()


class Rival:
    """The lease of another coordinator in the site's cluster."""

    def __init__(self, site: Site, terms: Terms = HELD) -> None:
        self._site, self.terms, self._key = site, terms, (terms.namespace, terms.name)

    async def take(self) -> None:
        """Have it, whoever had it before, as only a coordinator can that saw it expire."""
        stored = self._site.cluster.leases.get(self._key)
        if stored is None:
            await self._site.cluster.create_lease(self.terms.manifest_to_create(NOW))
        else:
            await self._site.cluster.replace_lease(self.terms.manifest_to_take_over(lease_of(stored), NOW))

    async def renew(self) -> None:
        await self._site.cluster.replace_lease(
            self.terms.manifest_to_renew(lease_of(self._site.cluster.leases[self._key]), NOW)
        )

    def free(self) -> None:
        del self._site.cluster.leases[self._key]


async def run_with(site: Site, *scripts: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the plan and the other task concurrently."""
    async with anyio.create_task_group() as group:
        for script in scripts:
            group.start_soon(script)
        await site.run()
        group.cancel_scope.cancel()


def at(site: Site, *moments: tuple[float, Callable[[], Any]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """Call each function at its time, in seconds from now."""

    async def script() -> None:
        passed = 0.0
        for moment, act in moments:
            await site.clock.sleep(moment - passed)
            passed = moment
            done = act()
            if isinstance(done, Awaitable):
                await done

    return script


def of(site: Site, kind: type[Any]) -> list[Any]:
    return [event for event in site.app.ledger.events if isinstance(event, kind)]


def ends(site: Site) -> None:
    site.cluster.show(site.pod(), ended())


def unreachable() -> ClusterError:
    return Unreachable("update lease", cause="reset", sent=False)


async def test_lease_exists_while_the_pod_does(tmp_path: Path) -> None:
    """The lease is created before the pod and deleted once the pod is seen gone; both are recorded."""
    site = Site(tmp_path, plan_of())
    assert await site.run() == "succeeded"
    calls = [call for call in site.cluster.calls if "log" not in call]
    assert calls[:3] == ["read_lease", "create_lease", "create_pod"]
    assert calls[-2:] == ["read_pod", "delete_lease"]
    kinds = [type(event) for event in site.app.ledger.events]
    assert kinds.index(LeaseAcquired) < kinds.index(PodCreated) < kinds.index(PodDeleted) < kinds.index(LeaseReleased)
    (acquired,), (released,) = of(site, LeaseAcquired), of(site, LeaseReleased)
    assert (acquired.workspace, acquired.claim, acquired.lease) == ("cache", "senro-cache", HELD.name)
    assert (released.freed, released.message) == (True, "")
    assert not site.cluster.leases
    assert site.nothing_left


async def test_step_without_claims_requests_no_lease(tmp_path: Path) -> None:
    """Without a claim no lease is requested: the identity may lack the rights."""
    site = Site(tmp_path, plan_of(mounts=()))
    assert await site.run() == "succeeded"
    assert not [call for call in site.cluster.calls if "lease" in call]


async def test_held_claim_is_awaited(tmp_path: Path) -> None:
    """The attempt waits while another holds the lease, reports the holder, and acquires it soon after its deletion."""
    site = Site(tmp_path, plan_of())
    rival = Rival(site)
    await rival.take()
    await run_with(site, at(site, (20, rival.renew), (40, rival.renew), (50, rival.free)))
    (awaited,), (acquired,) = of(site, LeaseAwaited), of(site, LeaseAcquired)
    assert awaited.holder == "w.s of run other-run"
    assert acquired.previous_holder == ""
    assert 50 <= acquired.waited_seconds <= 53
    phase = "waiting for the claim senro-cache, held by w.s of run other-run"
    assert phase in [shown for _, _, _, shown in site.app.reporter.states]
    assert site.outcomes[0].kind == "succeeded"


async def test_expired_lease_is_taken_over(tmp_path: Path) -> None:
    """A lease that is not renewed is taken over after its duration, and its former holder is recorded."""
    site = Site(tmp_path, plan_of())
    await Rival(site).take()
    await site.run()
    (acquired,) = of(site, LeaseAcquired)
    assert acquired.previous_holder == "w.s of run other-run"
    assert 60 <= acquired.waited_seconds <= 63
    assert not site.cluster.leases


async def test_lease_without_holder_is_free(tmp_path: Path) -> None:
    """A lease with an empty holderIdentity, as other clients release one, is taken over at once."""
    site = Site(tmp_path, plan_of())
    await Rival(site).take()
    site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    await site.run()
    (acquired,) = of(site, LeaseAcquired)
    assert (acquired.waited_seconds, acquired.previous_holder) == (0, "")


async def test_wait_is_bounded_by_max_lifetime(tmp_path: Path) -> None:
    """A holder that keeps renewing is awaited for max_lifetime; then the attempt fails without a pod."""
    site = Site(tmp_path, plan_of(max_lifetime=300.0))
    rival = Rival(site)
    await rival.take()
    await run_with(site, at(site, *((moment, rival.renew) for moment in range(20, 400, 20))))
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert outcome.message == (
        "the claim senro-cache in ci was not free in 300 s, and a step waits for its claims at most 300 s "
        f"(max_lifetime): w.s of run other-run holds the lease {HELD.name}"
    )
    assert "create_pod" not in site.cluster.calls
    assert site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] == HELD.holder


async def test_lease_is_renewed_while_the_step_runs(tmp_path: Path) -> None:
    """A step of ten minutes renews its lease of a minute every 20 s, and it never looks expired."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    await run_with(site, at(site, (590, lambda: ends(site))))
    assert site.cluster.calls.count("replace_lease") == 29
    assert not of(site, LeaseLost)
    assert site.outcomes[0].notes == ()


async def test_lease_is_renewed_while_the_pod_is_deleted(tmp_path: Path) -> None:
    """The lease is renewed during the pod's grace period and deleted afterwards."""
    site = Site(tmp_path, plan_of(grace=120))
    site.cluster.stubborn = True
    await site.run()
    assert site.cluster.calls.count("replace_lease") >= 5
    assert of(site, LeaseReleased)[0].freed
    assert not site.cluster.leases


async def test_lost_lease_is_reported(tmp_path: Path) -> None:
    """A lease that another step took over is recorded, noted in the outcome, and not written again."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    rival = Rival(site)
    await run_with(site, at(site, (30, rival.take), (200, lambda: ends(site))))
    (lost,) = of(site, LeaseLost)
    assert lost.holder == "w.s of run other-run"
    assert lost.message == (
        "w.s of run other-run has taken over the claim senro-cache, which this step still uses; the step continues"
    )
    assert ("build.make", lost.message) in site.app.reporter.notes
    assert (site.outcomes[0].kind, site.outcomes[0].notes) == ("succeeded", ("lease-lost",))
    assert not of(site, LeaseReleased)
    assert site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] == HELD.holder
    assert site.cluster.calls.count("replace_lease") == 3  # ours at 20 s, the rival's, and the one that was refused


async def test_deleted_lease_is_lost(tmp_path: Path) -> None:
    """A lease that another client deleted is lost."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    await run_with(site, at(site, (30, site.cluster.leases.clear), (200, lambda: ends(site))))
    (lost,) = of(site, LeaseLost)
    assert lost.holder == ""
    assert lost.message == (
        "the lease of the claim senro-cache does not exist any more, so other steps may use the claim; "
        "the step continues"
    )
    assert site.outcomes[0].notes == ("lease-lost",)
    assert not site.cluster.leases


async def test_lapsed_lease_is_renewed_again(tmp_path: Path) -> None:
    """A lease that lapses during an outage is recorded as lost, and acquired again if no other step took it."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(20):
        site.cluster.fail("replace_lease", unreachable())
    await run_with(site, at(site, (400, lambda: ends(site))))
    (lost,), (_, again) = of(site, LeaseLost), of(site, LeaseAcquired)
    assert lost.message == (
        "the lease of the claim senro-cache was not renewed in time, so other steps may use it: update lease: no "
        "answer (reset); nothing was sent; the step continues"
    )
    assert again.previous_holder.startswith("build.make of run ")
    assert site.outcomes[0].notes == ()
    assert of(site, LeaseReleased)[0].freed


async def test_lapsed_lease_of_another_is_left_alone(tmp_path: Path) -> None:
    """If another step takes over while renewals hang, the loss is recorded in time and the lease left alone."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(6):
        site.cluster.hang("replace_lease")
    rival = Rival(site)
    await run_with(site, at(site, (90, rival.take), (120, lambda: ends(site))))
    lapsed, lost = of(site, LeaseLost)
    assert (lapsed.holder, lost.holder) == ("", "w.s of run other-run")
    assert "lease-lost" in site.outcomes[0].notes
    assert site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] == HELD.holder


async def test_second_lapse_is_recorded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that is renewed while the first lapse is being recorded is watched again."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    append = site.app.ledger.append

    async def slowly(line: bytes) -> None:
        if b'"lease.lost"' in line:
            await site.clock.sleep(30)
        await append(line)

    def away() -> None:
        for _ in range(100):
            site.cluster.fail("replace_lease", unreachable())

    monkeypatch.setattr(site.app.ledger, "append", slowly)
    away()
    here = (55, lambda: site.cluster.heal("replace_lease"))
    await run_with(site, at(site, here, (60, away), (200, lambda: ends(site))))
    assert len(of(site, LeaseLost)) == 2
    assert "lease-lost" in site.outcomes[0].notes


@pytest.mark.parametrize("code", [429, 503])
async def test_retry_after_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A renewal and a deletion are not retried before the delay that the apiserver requested."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    moments: list[float] = []
    call = site.cluster._call

    async def timed(method: str, effect: Callable[[], Any]) -> Any:
        if method in ("replace_lease", "delete_lease"):
            moments.append(site.clock.monotonic())
        return await call(method, effect)

    monkeypatch.setattr(site.cluster, "_call", timed)
    site.cluster.fail("replace_lease", refusal("update lease", code, retry_after=9.0))
    site.cluster.fail("delete_lease", refusal("delete lease", code, retry_after=7.0))
    await run_with(site, at(site, (40, lambda: ends(site))))
    renewed, again, deleted, at_last = moments
    assert 9 <= again - renewed < 10
    assert 7 <= at_last - deleted < 8
    assert of(site, LeaseReleased)[0].freed


@pytest.mark.parametrize("hangs", ["a renewal", "a renewal that lands", "the look after it"])
async def test_unanswered_renewal_is_given_up_in_time(tmp_path: Path, hangs: str) -> None:
    """A renewal without an answer is given up while there is time for another one."""
    site = Site(tmp_path, plan_of(), course=stays(running()))

    def hang() -> None:
        if hangs == "the look after it":
            site.cluster.fail("replace_lease", refusal("update lease", 409, "Conflict", "modified"))
            site.cluster.hang("read_lease")
        else:
            site.cluster.hang("replace_lease", effect=hangs == "a renewal that lands")

    await run_with(site, at(site, (10, hang), (200, lambda: ends(site))))
    assert not of(site, LeaseLost)
    assert site.outcomes[0].notes == ()
    assert [event.freed for event in of(site, LeaseReleased)] == [True]


@pytest.mark.parametrize("seconds", [40.0, 60.0, 3600.0])
@pytest.mark.parametrize("times", [1, 2])
async def test_retry_after_does_not_lose_a_lease(tmp_path: Path, seconds: float, times: int) -> None:
    """However long the requested delay is, the lease is renewed while it is exclusive."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(times):
        site.cluster.fail("replace_lease", refusal("update lease", 429, retry_after=seconds))
    await run_with(site, at(site, (100, lambda: ends(site))))
    assert not of(site, LeaseLost)
    assert [event.freed for event in of(site, LeaseReleased)] == [True]


async def test_lapsed_lease_is_retried_within_its_duration(tmp_path: Path) -> None:
    """A lapsed lease is retried within its duration, whatever delay the apiserver requested."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(12):
        site.cluster.fail("replace_lease", refusal("update lease", 429, retry_after=3600.0))
    await run_with(site, at(site, (600, lambda: ends(site))))
    assert len(of(site, LeaseLost)) == 1
    assert len(of(site, LeaseAcquired)) == 2


@pytest.mark.parametrize("method", ["create_lease", "replace_lease"])
@pytest.mark.parametrize("lands", [True, False])
async def test_unanswered_acquisition_is_given_up_in_time(tmp_path: Path, method: str, *, lands: bool) -> None:
    """A create without an answer is given up, and the lease read, while there is time for the pod."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    site.cluster.hang(method, effect=lands)
    await site.run()
    assert site.outcomes[0].kind == "succeeded"
    assert of(site, LeaseAcquired)[0].waited_seconds < 15
    assert not site.cluster.leases


async def test_lapsed_claim_is_renewed_before_it_is_refused(tmp_path: Path) -> None:
    """A first claim that lapsed is renewed once more when the second is acquired."""
    site = Site(tmp_path, plan_of(mounts=("ant", "zebra")))
    rival = Rival(site, Terms("ci", "zebra", "senro-zebra", HELD.identity))
    await rival.take()

    def patience() -> None:
        for _ in range(7):
            site.cluster.fail("replace_lease", refusal("update lease", 429, retry_after=3600.0))

    def freed() -> None:
        site.cluster.heal("replace_lease")
        rival.free()

    await run_with(site, at(site, (10, patience), (50, lambda: None), (58, freed)))
    assert [event.workspace for event in of(site, LeaseLost)] == ["ant"]
    assert site.outcomes[0].kind == "succeeded"
    assert not site.cluster.leases


@pytest.mark.parametrize("method", ["read_lease", "create_lease"])
@pytest.mark.parametrize(("times", "kind"), [(1, "succeeded"), (100, "infra")])
async def test_retry_after_is_cut_to_the_trouble_time(tmp_path: Path, method: str, times: int, kind: str) -> None:
    """A long requested delay is cut to the end of the minute for errors, and the wait is reported."""
    site = Site(tmp_path, plan_of())
    for _ in range(times):
        site.cluster.fail(method, refusal("lease", 503, "", "away", retry_after=3600.0))
    before = site.clock.monotonic()
    await site.run()
    assert site.outcomes[0].kind == kind
    assert 60 <= site.clock.monotonic() - before < 70
    phases = [
        shown for _, _, _, shown in site.app.reporter.states if shown.startswith("waiting for the claim senro-cache")
    ]
    assert phases == ["waiting for the claim senro-cache: lease: the apiserver answered 503: away"]


async def test_renewal_with_a_lost_answer(tmp_path: Path) -> None:
    """A renewal that took effect without an answer is recognized."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    site.cluster.fail("replace_lease", Unreachable("update lease", cause="reset", sent=True), effect=True)
    await run_with(site, at(site, (200, lambda: ends(site))))
    assert not of(site, LeaseLost)
    assert of(site, LeaseReleased)[0].freed


@pytest.mark.parametrize("method", ["create_lease", "replace_lease"])
async def test_acquisition_with_a_lost_answer(tmp_path: Path, method: str) -> None:
    """A create or take-over that took effect without an answer is recognized by its nonce."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    site.cluster.fail(method, Unreachable("write lease", cause="reset", sent=True), effect=True)
    await site.run()
    assert site.outcomes[0].kind == "succeeded"
    assert not site.cluster.leases


@pytest.mark.parametrize("how", ["answered", "unanswered", "refused", "given back"])
async def test_previous_holder_is_recorded(tmp_path: Path, how: str) -> None:
    """The former holder is recorded also if the answer was lost, but not if the lease was released meanwhile."""
    site = Site(tmp_path, plan_of())
    rival = Rival(site)
    await rival.take()
    if how == "unanswered":
        site.cluster.fail("replace_lease", Unreachable("update lease", cause="reset", sent=True), effect=True)
    if how == "refused":
        site.cluster.fail("replace_lease", refusal("update lease", 409, "Conflict", "modified"))

    async def give_back() -> None:
        if how == "given back":
            while "replace_lease" not in site.cluster.calls:
                await anyio.lowlevel.checkpoint()
            rival.free()

    await run_with(site, give_back)
    (acquired,) = of(site, LeaseAcquired)
    assert acquired.previous_holder == ("" if how == "given back" else "w.s of run other-run")


WON = refusal("create lease", 409, "AlreadyExists", "exists")
CHANGED = refusal("update lease", 409, "Conflict", "modified")
DELETED = refusal("update lease", 404, "NotFound", "not found")


@pytest.mark.parametrize(
    ("method", "error"), [("create_lease", WON), ("replace_lease", CHANGED), ("replace_lease", DELETED)]
)
async def test_endless_conflicts_are_given_up(tmp_path: Path, method: str, error: ClusterError) -> None:
    """A free lease that is refused for a minute is given up with the cluster's message."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    for _ in range(1000):
        site.cluster.fail(method, error)
    before = site.clock.monotonic()
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert outcome.message.startswith(
        f"the lease {HELD.name} of the claim senro-cache was free, but could not be acquired in "
    )
    assert outcome.message.endswith(f" s: {error}")
    assert 60 <= site.clock.monotonic() - before < 75
    assert site.cluster.calls.count(method) < 30
    assert "create_pod" not in site.cluster.calls


async def test_errors_do_not_exceed_max_lifetime(tmp_path: Path) -> None:
    """Errors during the wait do not extend it beyond max_lifetime."""
    site = Site(tmp_path, plan_of(max_lifetime=30.0))
    for _ in range(100):
        site.cluster.fail("read_lease", refusal("read lease", 503, "", "away"))
    before = site.clock.monotonic()
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert outcome.message.endswith(": read lease: the apiserver answered 503: away")
    assert 30 <= site.clock.monotonic() - before < 40


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("create_lease", refusal("create lease", 409, "AlreadyExists", "exists")),
        ("replace_lease", refusal("update lease", 409, "Conflict", "modified")),
        ("replace_lease", refusal("update lease", 404, "NotFound", "not found")),
        ("read_lease", refusal("read lease", 503, "", "away")),
    ],
)
async def test_conflict_and_error_are_retried(tmp_path: Path, method: str, error: ClusterError) -> None:
    """After a conflict or an unanswered request the lease is read again."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    site.cluster.fail(method, error)
    await site.run()
    assert site.outcomes[0].kind == "succeeded"
    assert site.cluster.calls.count("read_lease") == 2


async def test_outage_of_a_minute_is_given_up(tmp_path: Path) -> None:
    """Errors are retried for a minute, as those of a create; then the attempt fails and the step did not run."""
    site = Site(tmp_path, plan_of())
    for _ in range(100):
        site.cluster.fail("create_lease", refusal("create lease", 503, "", "away"))
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "apiserver", "no")
    assert "create_pod" not in site.cluster.calls


@pytest.mark.parametrize("method", ["read_lease", "create_lease"])
async def test_forbidden_lease_names_the_verbs(tmp_path: Path, method: str) -> None:
    """A 403 names the verbs on leases that the identity needs."""
    site = Site(tmp_path, plan_of())
    words = 'leases.coordination.k8s.io is forbidden: User "ci" cannot get resource "leases"'
    site.cluster.fail(method, refusal("read lease ci/x", 403, "Forbidden", words))
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind) == ("infra", "forbidden")
    assert words in outcome.message
    assert outcome.message.endswith(
        ". For the claim senro-cache the identity needs get, create, update and delete on leases of "
        "coordination.k8s.io in the namespace ci."
    )


async def test_claims_are_acquired_in_sorted_order(tmp_path: Path) -> None:
    """Claims are acquired in the order of workspace names; the first is renewed during the wait for the second."""
    site = Site(tmp_path, plan_of(mounts=("zebra", "ant")))
    rival = Rival(site, Terms("ci", "zebra", "senro-zebra", HELD.identity))
    await rival.take()
    renewing = [(float(moment), rival.renew) for moment in range(20, 300, 20)]
    await run_with(site, at(site, *renewing, (300, rival.free)))
    assert [event.workspace for event in of(site, LeaseAcquired)] == ["ant", "zebra"]
    assert not of(site, LeaseLost)
    assert not site.cluster.leases


async def test_waits_of_claims_are_recorded_separately(tmp_path: Path) -> None:
    """The wait for the first claim is not counted for the second; both share one bound."""
    site = Site(tmp_path, plan_of(mounts=("ant", "zebra"), max_lifetime=100.0))
    first, second = (Rival(site, Terms("ci", name, f"senro-{name}", HELD.identity)) for name in ("ant", "zebra"))
    await first.take()
    await second.take()

    async def renew() -> None:
        await second.renew()
        if ("ci", first.terms.name) in site.cluster.leases:
            await first.renew()

    renewing = [(float(moment), renew) for moment in range(15, 120, 15)]
    await run_with(site, at(site, *renewing[:3], (50, first.free), *renewing[3:]))
    (acquired,) = of(site, LeaseAcquired)
    assert 50 <= acquired.waited_seconds <= 53
    (outcome,) = site.outcomes
    assert outcome.message.startswith("the claim senro-zebra in ci was not free in ")
    assert 45 <= int(outcome.message.split()[9]) <= 52
    assert 100 <= site.clock.monotonic() - 1000 <= 106


async def test_a_refused_second_claim_frees_the_first(tmp_path: Path) -> None:
    """If the second claim cannot be acquired, the first is released at once."""
    site = Site(tmp_path, plan_of(mounts=("ant", "zebra"), max_lifetime=100.0))
    rival = Rival(site, Terms("ci", "zebra", "senro-zebra", HELD.identity))
    await rival.take()
    await run_with(site, at(site, *((float(moment), rival.renew) for moment in range(20, 200, 20))))
    assert [(event.workspace, event.freed) for event in of(site, LeaseReleased)] == [("ant", True)]
    assert list(site.cluster.leases) == [("ci", rival.terms.name)]


async def test_claim_lost_during_the_wait_for_another(tmp_path: Path) -> None:
    """If the first claim is lost during the wait for the second, no pod is created."""
    site = Site(tmp_path, plan_of(mounts=("ant", "zebra")))
    first, second = (Rival(site, Terms("ci", name, f"senro-{name}", HELD.identity)) for name in ("ant", "zebra"))
    await second.take()
    await run_with(site, at(site, (20, second.renew), (40, second.renew), (50, first.take), (90, second.free)))
    assert "create_pod" not in site.cluster.calls
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert outcome.repeatable
    assert outcome.message == ("no pod was created: w.s of run other-run has taken over the claim senro-ant")
    (lost,) = of(site, LeaseLost)
    assert lost.message == "w.s of run other-run has taken over the claim senro-ant"
    assert [event.workspace for event in of(site, LeaseReleased)] == ["zebra"]


QUOTA = refusal("create pod", 403, "Forbidden", 'pods "make" is forbidden: exceeded quota: pods')
UNANSWERED = Unreachable("create pod", cause="reset", sent=True)


@pytest.mark.parametrize("how", ["taken over", "lapsed"])
@pytest.mark.parametrize("error", [QUOTA, UNANSWERED], ids=["quota", "unanswered"])
async def test_claim_lost_during_the_create(tmp_path: Path, how: str, error: ClusterError) -> None:
    """Before each create of the pod the claims are checked; without them no pod is created."""
    made: list[Manifest] = []

    def course(manifest: Manifest) -> list[dict[str, Any]]:
        made.append(manifest)
        return [running(), ended()]

    site = Site(tmp_path, plan_of(), course=course)
    if how == "lapsed":
        for _ in range(100):
            site.cluster.fail("replace_lease", unreachable())
    site.cluster.fail("create_pod", error)
    rival = Rival(site)

    async def keep_failing() -> None:
        # As long as the claim is ours; whoever asks once more then would have a pod.
        while not of(site, LeaseLost):
            site.cluster.fail("create_pod", error)
            await site.clock.sleep(0.2)
        site.cluster.heal("create_pod")

    await run_with(site, keep_failing, at(site, *([(5, rival.take)] if how == "taken over" else [])))
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert not made
    assert not of(site, PodCreated)


async def test_stored_pod_continues_without_the_claim(tmp_path: Path) -> None:
    """A pod that was stored by an unanswered create while the claim was held is used."""
    site = Site(tmp_path, plan_of())
    for _ in range(100):
        site.cluster.fail("replace_lease", unreachable())
    for _ in range(36):
        site.cluster.fail("read_pod", refusal("read pod", 503))
    site.cluster.fail("create_pod", UNANSWERED, effect=True)
    await site.run()
    (lost,), (created,) = of(site, LeaseLost), of(site, PodCreated)
    kinds = [type(event) for event in site.app.ledger.events]
    assert kinds.index(LeaseLost) < kinds.index(PodCreated)
    assert not lost.message.endswith("the step continues")
    assert created.adopted
    assert (site.outcomes[0].kind, site.outcomes[0].notes) == ("succeeded", ("lease-lost",))


TOO_LATE = refusal("create pod", 504, "", "gateway timeout")
DENIED = refusal("create pod", 403, "Forbidden", "admission webhook denied the request")


@pytest.mark.parametrize(
    ("errors", "looked_for"),
    [
        ((TOO_LATE,) * 100, True),
        ((refusal("create pod", 500, "", "etcdserver: request timed out"),) * 100, True),
        ((refusal("create pod", 500, "InternalError", "who knows"),), True),
        ((UNANSWERED, DENIED), True),
        ((TOO_LATE, DENIED), True),
        ((Unreachable("create pod", cause="refused", sent=False), DENIED), False),
        ((DENIED,), False),
    ],
    ids=["504", "etcd", "500", "lost, then denied", "504, then denied", "unsent, then denied", "denied"],
)
async def test_late_pod_is_removed_before_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: tuple[ClusterError, ...], *, looked_for: bool
) -> None:
    """A pod that may appear late is looked for and deleted before the claim is released; not after a refusal."""
    site = Site(tmp_path, plan_of(), course=stays(waiting()))
    made: list[Manifest] = []
    create = site.cluster.create_pod

    async def noted(manifest: Manifest) -> Any:
        made.append(manifest)
        return await create(manifest)

    monkeypatch.setattr(site.cluster, "create_pod", noted)
    for error in errors:
        site.cluster.fail("create_pod", error)

    async def land() -> None:
        while "read_pod" not in site.cluster.calls:
            await site.clock.sleep(0.05)
        if looked_for:
            await site.clock.sleep(UNACKNOWLEDGED_SECONDS / 2)
            assert site.cluster.leases
            site.cluster.heal("create_pod")
            await create(made[0])

    await run_with(site, land)
    assert site.outcomes[0].kind == "infra"
    assert [event.freed for event in of(site, LeaseReleased)] == [True]
    assert site.cluster.calls.count("read_pod") == 0 or looked_for
    assert len(of(site, PodDeleted)) == looked_for
    assert not site.cluster.pods


async def test_unconfirmed_pod_keeps_the_claim(tmp_path: Path) -> None:
    """If the pod was not seen gone, the lease is left to expire, and that is recorded."""
    site = Site(tmp_path, plan_of())
    for _ in range(1000):
        site.cluster.fail("delete_pod", refusal("delete pod", 403, "Forbidden", "no"))
    await site.run()
    (released,) = of(site, LeaseReleased)
    assert not released.freed
    assert released.message == (
        f"a process of its pod may be alive, so the lease {HELD.name} is not deleted: "
        "it expires 60 s after its last renewal"
    )
    assert len(site.cluster.leases) == 1


async def test_pod_of_a_silent_node_keeps_the_claim(tmp_path: Path) -> None:
    """A pod that was removed from a silent node may still write: the lease is left to expire."""
    silent = {
        **running(),
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}],
    }
    site = Site(tmp_path, plan_of(), course=stays(silent))
    await run_with(site, at(site, (60, lambda: site.cluster.vanish(site.pod()))))
    assert site.outcomes[0].may_be_alive
    assert [event.freed for event in of(site, LeaseReleased)] == [False]


@pytest.mark.parametrize("how", ["forced", "vanished"])
async def test_forced_pod_keeps_the_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A pod that was deleted without a grace period may still write: the lease is left to expire."""
    monkeypatch.setattr("senro.app.runtime.shutdown.FORCE_SECONDS", 0.0)
    site = Site(tmp_path, plan_of(), course=stays(running()))
    site.cluster.stubborn = True
    go = site.engine.cancel if how == "forced" else lambda: site.cluster.vanish(site.pod())
    await run_with(site, at(site, (30, go)))
    (released,) = of(site, LeaseReleased)
    assert not released.freed
    assert released.message.startswith("a process of its pod may be alive")
    assert list(site.cluster.leases) == [("ci", HELD.name)]


async def test_pod_forced_after_its_timeout_keeps_the_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another client removes the grace period of a timed-out pod, the lease is left to expire."""
    site = Site(tmp_path, plan_of(of_step={"timeout": 30.0}, grace=600), course=stays(running()))
    site.cluster.stubborn = True
    delete = site.cluster.delete_pod

    async def deleted(namespace: str, name: str, *, uid: str, grace_seconds: int | None = None) -> bool:
        gone = await delete(namespace, name, uid=uid, grace_seconds=grace_seconds)
        if not gone:
            site.cluster.vanish(site.pod())
        return gone

    monkeypatch.setattr(site.cluster, "delete_pod", deleted)
    await site.run()
    assert site.outcomes[0].kind == "timed_out"
    assert [event.freed for event in of(site, LeaseReleased)] == [False]
    assert list(site.cluster.leases) == [("ci", HELD.name)]


async def test_each_attempt_acquires_the_claim(tmp_path: Path) -> None:
    """Each attempt has its own lease; between two attempts another step may hold the claim."""
    again = {"retry": retry.on_any(attempts=2, delay=5)}
    site = Site(tmp_path, plan_of(of_step=again), course=in_turn(runs_for(1), runs_for(0)))
    assert await site.run() == "succeeded_with_recovery"
    assert [event.attempt for event in of(site, LeaseAcquired)] == [1, 2]
    assert [event.attempt for event in of(site, LeaseReleased)] == [1, 2]


@pytest.mark.parametrize("moment", ["waiting", "taking", "running"])
async def test_a_cancelled_run_frees_its_claims(tmp_path: Path, moment: str) -> None:
    """A run that is cancelled at any time releases the leases that it holds, and no others."""
    site = Site(tmp_path, plan_of(), course=stays(running()), auto=False)
    if moment == "waiting":
        await Rival(site).take()
    if moment == "taking":
        site.cluster.hang("create_lease", effect=True)
    seen = {"waiting": "read_lease", "taking": "create_lease", "running": "create_pod"}[moment]
    async with anyio.create_task_group() as group:
        group.start_soon(site.run)
        await until(lambda: site.cluster.calls.count(seen) > 0)
        await until(lambda: moment != "running" or of(site, PodCreated))
        await until(lambda: moment != "taking" or site.cluster.leases)
        site.engine.cancel()
    assert list(site.cluster.leases) == ([("ci", HELD.name)] if moment == "waiting" else [])
    assert [event.freed for event in of(site, LeaseReleased)] == ([] if moment == "waiting" else [True])


async def test_release_despite_conflicts_and_errors(tmp_path: Path) -> None:
    """A lease that was changed meanwhile is read and deleted; errors are retried."""
    site = Site(tmp_path, plan_of())
    site.cluster.fail("delete_lease", refusal("delete lease", 409, "Conflict", "modified"))
    site.cluster.fail("delete_lease", refusal("delete lease", 503, "", "away"))
    site.cluster.fail("delete_lease", refusal("delete lease", 401, "Unauthorized", "Unauthorized"))
    await site.run()
    assert site.cluster.calls.count("delete_lease") == 4
    assert of(site, LeaseReleased)[0].freed
    assert not site.cluster.leases


@pytest.mark.parametrize("then", ["nothing", "another lease"])
async def test_release_with_a_lost_answer(tmp_path: Path, then: str) -> None:
    """An unanswered deletion took effect: if the lease is gone or another's afterwards, that is no loss."""
    site = Site(tmp_path, plan_of())
    site.cluster.fail("delete_lease", Unreachable("delete lease", cause="reset", sent=True), effect=True)
    rival = Rival(site)

    async def take() -> None:
        while "delete_lease" not in site.cluster.calls or site.cluster.leases:
            await anyio.lowlevel.checkpoint()
        await rival.take()

    async with anyio.create_task_group() as group:
        if then == "another lease":
            group.start_soon(take)
        await site.run()
    assert not of(site, LeaseLost)
    assert [event.freed for event in of(site, LeaseReleased)] == [True]
    assert list(site.cluster.leases) == ([("ci", HELD.name)] if then == "another lease" else [])


async def test_unanswered_release_without_effect(tmp_path: Path) -> None:
    """An unanswered deletion had no effect and another step took over the same lease: that is recorded as a loss."""
    site = Site(tmp_path, plan_of())
    site.cluster.fail("delete_lease", Unreachable("delete lease", cause="reset", sent=True))
    rival = Rival(site)

    async def take() -> None:
        while "delete_lease" not in site.cluster.calls:
            await anyio.lowlevel.checkpoint()
        await rival.take()

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await site.run()
    assert [event.holder for event in of(site, LeaseLost)] == ["w.s of run other-run"]
    assert not of(site, LeaseReleased)


@pytest.mark.parametrize("before", ["none", "expired"])
async def test_late_lease_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """A write that was given up may take effect later: the lease is looked for and deleted."""
    site = Site(tmp_path, plan_of(), auto=False)
    writes: list[Manifest] = []

    async def never(manifest: Manifest) -> None:
        writes.append(manifest)
        await anyio.sleep_forever()

    method = {"none": "create_lease", "expired": "replace_lease"}[before]
    if before == "expired":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    write = getattr(site.cluster, method)
    monkeypatch.setattr(site.cluster, method, never)
    async with anyio.create_task_group() as group:
        group.start_soon(site.run)
        await until(lambda: bool(writes))
        site.engine.cancel()
        await until(lambda: site.clock.sleepers > 0)
        await site.clock.advance(1)
        await write(writes[0])
        await site.clock.advance(UNACKNOWLEDGED_SECONDS)
    assert not site.cluster.leases
    assert [event.freed for event in of(site, LeaseReleased)] == [True]


async def test_refused_lease_is_not_looked_for(tmp_path: Path) -> None:
    """After a refused write no lease can appear: a cancelled run ends at once."""
    site = Site(tmp_path, plan_of(), auto=False)
    site.cluster.fail("create_lease", WON)
    async with anyio.create_task_group() as group:
        group.start_soon(site.run)
        await until(lambda: "create_lease" in site.cluster.calls)
        await site.clock.advance(0)
        await Rival(site).take()
        looks = site.cluster.calls.count("read_lease")
        site.engine.cancel()
    assert site.cluster.calls.count("read_lease") == looks
    assert not of(site, LeaseReleased)


async def test_forbidden_release_lets_the_lease_expire(tmp_path: Path) -> None:
    """A lease whose deletion is forbidden is left to expire, and the refusal is recorded."""
    site = Site(tmp_path, plan_of())
    site.cluster.fail("delete_lease", refusal("delete lease", 403, "Forbidden", "no"))
    await site.run()
    (released,) = of(site, LeaseReleased)
    assert released.message == (
        f"the lease {HELD.name} could not be deleted (delete lease: the apiserver answered 403 Forbidden: no): it "
        "expires 60 s after its last renewal"
    )
    assert ("build.make", released.message) in site.app.reporter.notes


async def test_lease_of_another_at_the_release(tmp_path: Path) -> None:
    """A lease that turns out to be another's at the release is recorded as lost and left alone."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    rival = Rival(site)
    await run_with(site, at(site, (5, rival.take), (6, lambda: ends(site))))
    (lost,) = of(site, LeaseLost)
    assert (lost.holder, lost.message) == (
        "w.s of run other-run",
        "w.s of run other-run has taken over the claim senro-cache",
    )
    assert list(site.cluster.leases) == [("ci", HELD.name)]
    assert not of(site, LeaseReleased)


async def test_lease_lost_during_the_deletion(tmp_path: Path) -> None:
    """A loss after the end of the step does not say that the step continues."""
    site = Site(tmp_path, plan_of(grace=120))
    site.cluster.stubborn = True
    rival = Rival(site)
    await run_with(site, at(site, (60, rival.take)))
    (lost,) = of(site, LeaseLost)
    assert lost.message == "w.s of run other-run has taken over the claim senro-cache"
    assert site.outcomes[0].kind == "succeeded"


async def test_slow_release_lets_the_lease_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not answer does not delay the run: the lease is left to expire."""
    monkeypatch.setattr("senro.app.pod.claim_release.RELEASE_SECONDS", 0.05)
    site = Site(tmp_path, plan_of())
    site.cluster.hang("delete_lease")
    await site.run()
    assert of(site, LeaseReleased)[0].message == (
        f"the lease {HELD.name} could not be deleted: it expires 60 s after its last renewal"
    )


async def test_pending_message_names_the_claim(tmp_path: Path) -> None:
    """The reason why a pod is pending, or given up, ends with a sentence that names the claim."""
    words = '0/1 nodes are available: persistentvolumeclaim "senro-cache" not found.'
    unscheduled = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}],
    }
    site = Site(tmp_path, plan_of(start_timeout=60.0), course=stays(unscheduled))
    await site.run()
    shown = "Create the claim senro-cache in the pod's namespace: senro creates none."
    assert [event.message for event in of(site, PodPending)] == ["", f"{words.rstrip('.')}. {shown}"]
    (outcome,) = site.outcomes
    assert (outcome.infra_kind, outcome.message[-len(shown) :]) == ("unschedulable", shown)


async def test_silent_wait_for_a_volume_is_explained(tmp_path: Path) -> None:
    """If the node reports no reason, the message says what a claim in use on another node looks like."""
    site = Site(tmp_path, plan_of(start_timeout=60.0), course=stays(waiting()))
    await site.run()
    messages = [event.message for event in of(site, PodPending)]
    assert any("it mounts the claim senro-cache; a ReadWriteOnce claim" in message for message in messages)


async def test_steps_of_one_run_take_turns(tmp_path: Path) -> None:
    """Steps that need the same claim run one after the other, and a waiting one takes no job."""
    pipeline = Pipeline("release")
    workflow = pipeline.workflow("build")
    claiming, plain = Pod(IMAGE, namespace="ci", claims={"cache": "senro-cache"}), Pod(IMAGE, namespace="ci")
    for name in ("a", "b", "c"):
        workflow.step(name, ["make"], mounts=[Workspace("cache").at("/cache")], on=claiming)
    for name in ("x", "y", "z"):
        workflow.step(name, ["make"], on=plain)
    done: list[list[str]] = []

    def course(manifest: Manifest) -> list[dict[str, Any]]:
        return [running()] if "volumes" in manifest["spec"] else [waiting(), running(), ended()]

    site = Site(tmp_path, pipeline.build(), jobs=2, course=course)

    def end_one() -> None:
        done.append([step for step, known in site.app.recorder.progress.steps.items() if known.state == "succeeded"])
        ends(site)

    await run_with(site, at(site, (60, end_one), (120, end_one), (180, end_one)))
    assert sorted(done[0]) == ["build.x", "build.y", "build.z"]
    assert [len(steps) for steps in done] == [3, 4, 5]
    spans = [event for event in site.app.ledger.events if isinstance(event, LeaseAcquired | LeaseReleased)]
    assert [type(event) for event in spans] == [LeaseAcquired, LeaseReleased] * 3


async def test_turn_lasts_as_long_as_the_lease(tmp_path: Path) -> None:
    """The next step of a run waits until the pod is gone, and takes no job for that wait."""
    pipeline = Pipeline("release")
    workflow = pipeline.workflow("build")
    target = Pod(IMAGE, namespace="ci", claims={"cache": "senro-cache"}, grace=30)
    for name in ("a", "b", "c"):
        workflow.step(name, ["make"], mounts=[Workspace("cache").at("/cache")], on=target)
    workflow.step("plain", ["make"], on=Pod(IMAGE, namespace="ci"))
    site = Site(tmp_path, pipeline.build(), jobs=1)
    site.cluster.stubborn = True
    assert await site.run() == "succeeded"
    assert not of(site, LeaseAwaited)
    assert [event.waited_seconds for event in of(site, LeaseAcquired)] == [0, 0, 0]
