"""The claims of an attempt: waited for, had, renewed, lost and given back, in whole runs against a cluster in memory.

More than 500 lines: one course of a lease after the other, which share a plan, a rival and a table of moments.
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
from tests.lib.builders.leases import leased
from tests.lib.builders.plans import IMAGE
from tests.lib.fakes.cluster import ended, refused, running, waiting
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
    """Another coordinator's lease in the site's cluster."""

    def __init__(self, site: Site, terms: Terms = HELD) -> None:
        self._site, self.terms, self._key = site, terms, (terms.namespace, terms.name)

    async def take(self) -> None:
        """Have it, whoever had it before, as only a coordinator can that saw it expire."""
        stored = self._site.cluster.leases.get(self._key)
        if stored is None:
            await self._site.cluster.create_lease(self.terms.manifest_to_create(NOW))
        else:
            await self._site.cluster.replace_lease(self.terms.manifest_to_take_over(leased(stored), NOW))

    async def renew(self) -> None:
        await self._site.cluster.replace_lease(
            self.terms.manifest_to_renew(leased(self._site.cluster.leases[self._key]), NOW)
        )

    def free(self) -> None:
        del self._site.cluster.leases[self._key]


async def run_with(site: Site, *scripts: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the plan, and whatever happens meanwhile."""
    async with anyio.create_task_group() as group:
        for script in scripts:
            group.start_soon(script)
        await site.run()
        group.cancel_scope.cancel()


def at(site: Site, *moments: tuple[float, Callable[[], Any]]) -> Callable[[], Coroutine[Any, Any, None]]:
    """Do each at its moment, in seconds since now."""

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


async def test_from_before_the_pod_until_it_is_gone(tmp_path: Path) -> None:
    """The lease is created before the pod is, and deleted when the pod was seen gone; both are told in the ledger."""
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


async def test_a_step_without_a_claim_asks_for_no_lease(tmp_path: Path) -> None:
    """Nothing of leases is asked for where no claim is mounted: the identity may not have the rights."""
    site = Site(tmp_path, plan_of(mounts=()))
    assert await site.run() == "succeeded"
    assert not [call for call in site.cluster.calls if "lease" in call]


async def test_waiting_for_a_holder(tmp_path: Path) -> None:
    """Who finds it held waits, says for whom, and has it soon after it was given back; no pod waits meanwhile."""
    site = Site(tmp_path, plan_of())
    rival = Rival(site)
    await rival.take()
    await run_with(site, at(site, (20, rival.renew), (40, rival.renew), (50, rival.free)))
    (awaited,), (acquired,) = of(site, LeaseAwaited), of(site, LeaseAcquired)
    assert awaited.holder == "w.s of run other-run"
    assert acquired.previous_holder == ""
    assert 50 <= acquired.waited_seconds <= 53
    phase = "waiting for the claim senro-cache, held by w.s of run other-run"
    assert phase in [told for _, _, _, told in site.app.reporter.states]
    assert site.outcomes[0].kind == "succeeded"


async def test_taking_over(tmp_path: Path) -> None:
    """A lease that its holder does not renew is taken over after one whole duration, naming who had it."""
    site = Site(tmp_path, plan_of())
    await Rival(site).take()
    await site.run()
    (acquired,) = of(site, LeaseAcquired)
    assert acquired.previous_holder == "w.s of run other-run"
    assert 60 <= acquired.waited_seconds <= 63
    assert not site.cluster.leases


async def test_a_lease_that_was_given_back_is_free(tmp_path: Path) -> None:
    """An empty holderIdentity, as others give a lease back, is taken at once."""
    site = Site(tmp_path, plan_of())
    await Rival(site).take()
    site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    await site.run()
    (acquired,) = of(site, LeaseAcquired)
    assert (acquired.waited_seconds, acquired.previous_holder) == (0, "")


async def test_the_wait_is_bounded(tmp_path: Path) -> None:
    """A holder that goes on renewing is waited for as long as a step may live: then Infra, naming it, and no pod."""
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


async def test_it_is_renewed_while_the_step_runs(tmp_path: Path) -> None:
    """A step of ten minutes renews its lease of a minute every third of it, and no rival would find it expired."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    await run_with(site, at(site, (590, lambda: ends(site))))
    assert site.cluster.calls.count("replace_lease") == 29
    assert not of(site, LeaseLost)
    assert site.outcomes[0].notes == ()


async def test_it_is_renewed_while_the_pod_is_put_away(tmp_path: Path) -> None:
    """A pod that takes its grace to go keeps the claim: its lease is renewed until then, and deleted afterwards."""
    site = Site(tmp_path, plan_of(grace=120))
    site.cluster.stubborn = True
    await site.run()
    assert site.cluster.calls.count("replace_lease") >= 5
    assert of(site, LeaseReleased)[0].freed
    assert not site.cluster.leases


async def test_a_lost_lease(tmp_path: Path) -> None:
    """A lease that another took is reported, in the ledger and on the result, and never touched again."""
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


async def test_a_lease_that_somebody_deleted(tmp_path: Path) -> None:
    """A lease that is not there any more is lost as well: whoever comes may have it."""
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


async def test_a_lease_that_lapsed(tmp_path: Path) -> None:
    """While the control plane is away the lease lapses, which is said; if nobody took it by then, it is ours again."""
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


async def test_a_lease_that_lapsed_and_is_not_ours_in_the_end(tmp_path: Path) -> None:
    """Renewals that hang until another takes the lease: uncertain in time, on the result, and left to the other."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(6):
        site.cluster.hang("replace_lease")
    rival = Rival(site)
    await run_with(site, at(site, (90, rival.take), (120, lambda: ends(site))))
    lapsed, lost = of(site, LeaseLost)
    assert (lapsed.holder, lost.holder) == ("", "w.s of run other-run")
    assert "lease-lost" in site.outcomes[0].notes
    assert site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] == HELD.holder


async def test_a_lease_that_lapses_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewed while a slow ledger is still told that it had lapsed, it is watched on: a second lapse is told too."""
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
async def test_an_apiserver_that_asks_for_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A renewal and a giving back that are told when to come again do not come before."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    moments: list[float] = []
    call = site.cluster._call

    async def timed(method: str, effect: Callable[[], Any]) -> Any:
        if method in ("replace_lease", "delete_lease"):
            moments.append(site.clock.monotonic())
        return await call(method, effect)

    monkeypatch.setattr(site.cluster, "_call", timed)
    site.cluster.fail("replace_lease", refused("update lease", code, retry_after=9.0))
    site.cluster.fail("delete_lease", refused("delete lease", code, retry_after=7.0))
    await run_with(site, at(site, (40, lambda: ends(site))))
    renewed, again, deleted, at_last = moments
    assert 9 <= again - renewed < 10
    assert 7 <= at_last - deleted < 8
    assert of(site, LeaseReleased)[0].freed


@pytest.mark.parametrize("hangs", ["a renewal", "a renewal that lands", "the look after it"])
async def test_a_renewal_that_is_never_answered(tmp_path: Path, hangs: str) -> None:
    """It is given up while the lease has time left, and asked for again: nothing is lost by it."""
    site = Site(tmp_path, plan_of(), course=stays(running()))

    def hang() -> None:
        if hangs == "the look after it":
            site.cluster.fail("replace_lease", refused("update lease", 409, "Conflict", "modified"))
            site.cluster.hang("read_lease")
        else:
            site.cluster.hang("replace_lease", effect=hangs == "a renewal that lands")

    await run_with(site, at(site, (10, hang), (200, lambda: ends(site))))
    assert not of(site, LeaseLost)
    assert site.outcomes[0].notes == ()
    assert [event.freed for event in of(site, LeaseReleased)] == [True]


@pytest.mark.parametrize("seconds", [40.0, 60.0, 3600.0])
@pytest.mark.parametrize("times", [1, 2])
async def test_patience_does_not_lose_a_lease(tmp_path: Path, seconds: float, times: int) -> None:
    """However long the apiserver asks for, a lease is asked for again while it is certain."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(times):
        site.cluster.fail("replace_lease", refused("update lease", 429, retry_after=seconds))
    await run_with(site, at(site, (100, lambda: ends(site))))
    assert not of(site, LeaseLost)
    assert [event.freed for event in of(site, LeaseReleased)] == [True]


async def test_patience_ends_once_a_lease_has_lapsed(tmp_path: Path) -> None:
    """A lease that lapsed is asked for again within its duration, whatever the apiserver asks for."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    for _ in range(12):
        site.cluster.fail("replace_lease", refused("update lease", 429, retry_after=3600.0))
    await run_with(site, at(site, (600, lambda: ends(site))))
    assert len(of(site, LeaseLost)) == 1
    assert len(of(site, LeaseAcquired)) == 2


@pytest.mark.parametrize("method", ["create_lease", "replace_lease"])
@pytest.mark.parametrize("lands", [True, False])
async def test_a_take_that_is_never_answered(tmp_path: Path, method: str, *, lands: bool) -> None:
    """It is given up, looked at as any lost answer, and the lease is had while there is time left for the pod."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    site.cluster.hang(method, effect=lands)
    await site.run()
    assert site.outcomes[0].kind == "succeeded"
    assert of(site, LeaseAcquired)[0].waited_seconds < 15
    assert not site.cluster.leases


async def test_a_claim_is_renewed_before_it_is_given_up(tmp_path: Path) -> None:
    """The first of two lapsed and its next renewal is far: once the second is had, it is asked for once more."""
    site = Site(tmp_path, plan_of(mounts=("ant", "zebra")))
    rival = Rival(site, Terms("ci", "zebra", "senro-zebra", HELD.identity))
    await rival.take()

    def patience() -> None:
        for _ in range(7):
            site.cluster.fail("replace_lease", refused("update lease", 429, retry_after=3600.0))

    def freed() -> None:
        site.cluster.heal("replace_lease")
        rival.free()

    await run_with(site, at(site, (10, patience), (50, lambda: None), (58, freed)))
    assert [event.workspace for event in of(site, LeaseLost)] == ["ant"]
    assert site.outcomes[0].kind == "succeeded"
    assert not site.cluster.leases


@pytest.mark.parametrize("method", ["read_lease", "create_lease"])
@pytest.mark.parametrize(("times", "kind"), [(1, "succeeded"), (100, "infra")])
async def test_patience_does_not_outlast_the_troubles(tmp_path: Path, method: str, times: int, kind: str) -> None:
    """A claim is asked for once more at the end of the minute for which troubles are sat out, and that is shown."""
    site = Site(tmp_path, plan_of())
    for _ in range(times):
        site.cluster.fail(method, refused("lease", 503, "", "away", retry_after=3600.0))
    before = site.clock.monotonic()
    await site.run()
    assert site.outcomes[0].kind == kind
    assert 60 <= site.clock.monotonic() - before < 70
    phases = [
        told for _, _, _, told in site.app.reporter.states if told.startswith("waiting for the claim senro-cache")
    ]
    assert phases == ["waiting for the claim senro-cache: lease: the apiserver answered 503: away"]


async def test_a_renewal_whose_answer_was_lost(tmp_path: Path) -> None:
    """A renewal that took effect unanswered is found to be ours, and the lease goes on."""
    site = Site(tmp_path, plan_of(), course=stays(running()))
    site.cluster.fail("replace_lease", Unreachable("update lease", cause="reset", sent=True), effect=True)
    await run_with(site, at(site, (200, lambda: ends(site))))
    assert not of(site, LeaseLost)
    assert of(site, LeaseReleased)[0].freed


@pytest.mark.parametrize("method", ["create_lease", "replace_lease"])
async def test_a_take_whose_answer_was_lost(tmp_path: Path, method: str) -> None:
    """A lease that was created or taken over by a request that got no answer is ours, by its nonce."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    site.cluster.fail(method, Unreachable("write lease", cause="reset", sent=True), effect=True)
    await site.run()
    assert site.outcomes[0].kind == "succeeded"
    assert not site.cluster.leases


@pytest.mark.parametrize("how", ["answered", "unanswered", "refused", "given back"])
async def test_who_had_an_expired_lease_is_told(tmp_path: Path, how: str) -> None:
    """Also where the answer to the take-over was lost; not where somebody gave the lease back in that moment."""
    site = Site(tmp_path, plan_of())
    rival = Rival(site)
    await rival.take()
    if how == "unanswered":
        site.cluster.fail("replace_lease", Unreachable("update lease", cause="reset", sent=True), effect=True)
    if how == "refused":
        site.cluster.fail("replace_lease", refused("update lease", 409, "Conflict", "modified"))

    async def give_back() -> None:
        if how == "given back":
            while "replace_lease" not in site.cluster.calls:
                await anyio.lowlevel.checkpoint()
            rival.free()

    await run_with(site, give_back)
    (acquired,) = of(site, LeaseAcquired)
    assert acquired.previous_holder == ("" if how == "given back" else "w.s of run other-run")


WON = refused("create lease", 409, "AlreadyExists", "exists")
CHANGED = refused("update lease", 409, "Conflict", "modified")
DELETED = refused("update lease", 404, "NotFound", "not found")


@pytest.mark.parametrize(
    ("method", "error"), [("create_lease", WON), ("replace_lease", CHANGED), ("replace_lease", DELETED)]
)
async def test_a_race_that_never_ends(tmp_path: Path, method: str, error: ClusterError) -> None:
    """A lease that nobody has and that is refused for a minute is given up, in the cluster's words, and no faster."""
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


async def test_troubles_do_not_outlast_the_wait(tmp_path: Path) -> None:
    """Whatever is met while a claim is waited for, the wait ends with the target's max_lifetime."""
    site = Site(tmp_path, plan_of(max_lifetime=30.0))
    for _ in range(100):
        site.cluster.fail("read_lease", refused("read lease", 503, "", "away"))
    before = site.clock.monotonic()
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert outcome.message.endswith(": read lease: the apiserver answered 503: away")
    assert 30 <= site.clock.monotonic() - before < 40


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("create_lease", refused("create lease", 409, "AlreadyExists", "exists")),
        ("replace_lease", refused("update lease", 409, "Conflict", "modified")),
        ("replace_lease", refused("update lease", 404, "NotFound", "not found")),
        ("read_lease", refused("read lease", 503, "", "away")),
    ],
)
async def test_a_race_and_a_trouble(tmp_path: Path, method: str, error: ClusterError) -> None:
    """Who was slower, or was not answered, looks again."""
    site = Site(tmp_path, plan_of())
    if method == "replace_lease":
        await Rival(site).take()
        site.cluster.leases["ci", HELD.name]["spec"]["holderIdentity"] = ""
    site.cluster.fail(method, error)
    await site.run()
    assert site.outcomes[0].kind == "succeeded"
    assert site.cluster.calls.count("read_lease") == 2


async def test_a_control_plane_that_stays_away(tmp_path: Path) -> None:
    """Troubles are sat out for a minute, as those of a create are; then it is Infra, and the step did not run."""
    site = Site(tmp_path, plan_of())
    for _ in range(100):
        site.cluster.fail("create_lease", refused("create lease", 503, "", "away"))
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "apiserver", "no")
    assert "create_pod" not in site.cluster.calls


@pytest.mark.parametrize("method", ["read_lease", "create_lease"])
async def test_an_identity_without_the_rights(tmp_path: Path, method: str) -> None:
    """A 403 says which verbs on leases the identity needs, and for what."""
    site = Site(tmp_path, plan_of())
    words = 'leases.coordination.k8s.io is forbidden: User "ci" cannot get resource "leases"'
    site.cluster.fail(method, refused("read lease ci/x", 403, "Forbidden", words))
    await site.run()
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind) == ("infra", "forbidden")
    assert words in outcome.message
    assert outcome.message.endswith(
        ". For the claim senro-cache the identity needs get, create, update and delete on leases of "
        "coordination.k8s.io in the namespace ci."
    )


async def test_two_claims_in_one_order(tmp_path: Path) -> None:
    """Claims are taken in the order of their workspaces' names; the first is renewed while the second is awaited."""
    site = Site(tmp_path, plan_of(mounts=("zebra", "ant")))
    rival = Rival(site, Terms("ci", "zebra", "senro-zebra", HELD.identity))
    await rival.take()
    renewing = [(float(moment), rival.renew) for moment in range(20, 300, 20)]
    await run_with(site, at(site, *renewing, (300, rival.free)))
    assert [event.workspace for event in of(site, LeaseAcquired)] == ["ant", "zebra"]
    assert not of(site, LeaseLost)
    assert not site.cluster.leases


async def test_each_claim_has_a_wait_of_its_own(tmp_path: Path) -> None:
    """What was waited for the first of two claims is not told of the second; what both may take is one bound."""
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
    """Where one of two claims cannot be had, the other is given back at once."""
    site = Site(tmp_path, plan_of(mounts=("ant", "zebra"), max_lifetime=100.0))
    rival = Rival(site, Terms("ci", "zebra", "senro-zebra", HELD.identity))
    await rival.take()
    await run_with(site, at(site, *((float(moment), rival.renew) for moment in range(20, 200, 20))))
    assert [(event.workspace, event.freed) for event in of(site, LeaseReleased)] == [("ant", True)]
    assert list(site.cluster.leases) == [("ci", rival.terms.name)]


async def test_a_claim_that_is_lost_while_another_is_awaited(tmp_path: Path) -> None:
    """The first of two claims is taken while the second is awaited: no pod is made beside the one that has it."""
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


QUOTA = refused("create pod", 403, "Forbidden", 'pods "make" is forbidden: exceeded quota: pods')
UNANSWERED = Unreachable("create pod", cause="reset", sent=True)


@pytest.mark.parametrize("how", ["taken", "lapsed"])
@pytest.mark.parametrize("error", [QUOTA, UNANSWERED], ids=["quota", "unanswered"])
async def test_a_claim_that_is_lost_while_its_pod_is_created(tmp_path: Path, how: str, error: ClusterError) -> None:
    """A create that is repeated asks each time whether the claim is still ours: if not, there is no pod."""
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

    await run_with(site, keep_failing, at(site, *([(5, rival.take)] if how == "taken" else [])))
    (outcome,) = site.outcomes
    assert (outcome.kind, outcome.infra_kind, outcome.did_run) == ("infra", "claim", "no")
    assert not made
    assert not of(site, PodCreated)


async def test_a_pod_that_is_there_already_goes_on(tmp_path: Path) -> None:
    """A pod that was made while the claim was ours, by a request whose answer was lost, is one that has the claim."""
    site = Site(tmp_path, plan_of())
    for _ in range(100):
        site.cluster.fail("replace_lease", unreachable())
    for _ in range(28):
        site.cluster.fail("read_pod", refused("read pod", 503))
    site.cluster.fail("create_pod", UNANSWERED, effect=True)
    await site.run()
    (lost,), (created,) = of(site, LeaseLost), of(site, PodCreated)
    kinds = [type(event) for event in site.app.ledger.events]
    assert kinds.index(LeaseLost) < kinds.index(PodCreated)
    assert not lost.message.endswith("the step continues")
    assert created.adopted
    assert (site.outcomes[0].kind, site.outcomes[0].notes) == ("succeeded", ("lease-lost",))


TOO_LATE = refused("create pod", 504, "", "gateway timeout")
DENIED = refused("create pod", 403, "Forbidden", "admission webhook denied the request")


@pytest.mark.parametrize(
    ("errors", "looked_for"),
    [
        ((TOO_LATE,) * 100, True),
        ((refused("create pod", 500, "", "etcdserver: request timed out"),) * 100, True),
        ((refused("create pod", 500, "InternalError", "who knows"),), True),
        ((UNANSWERED, DENIED), True),
        ((TOO_LATE, DENIED), True),
        ((Unreachable("create pod", cause="refused", sent=False), DENIED), False),
        ((DENIED,), False),
    ],
    ids=["504", "etcd", "500", "lost, then denied", "504, then denied", "unsent, then denied", "denied"],
)
async def test_a_create_that_may_land_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: tuple[ClusterError, ...], *, looked_for: bool
) -> None:
    """Its pod is looked for a while and removed before the claim is given back; a refused one is not looked for."""
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


async def test_a_pod_that_was_not_seen_gone(tmp_path: Path) -> None:
    """A claim whose pod may still be there is not given back: its lease is left to expire, and the ledger says so."""
    site = Site(tmp_path, plan_of())
    for _ in range(1000):
        site.cluster.fail("delete_pod", refused("delete pod", 403, "Forbidden", "no"))
    await site.run()
    (released,) = of(site, LeaseReleased)
    assert not released.freed
    assert released.message == (
        f"a process of its pod may be alive, so the lease {HELD.name} is not deleted: "
        "it expires 60 s after its last renewal"
    )
    assert len(site.cluster.leases) == 1


async def test_a_pod_whose_node_fell_silent(tmp_path: Path) -> None:
    """A pod that somebody removed from a node that fell silent may still write: its claim is left to expire."""
    silent = {
        **running(),
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}],
    }
    site = Site(tmp_path, plan_of(), course=stays(silent))
    await run_with(site, at(site, (60, lambda: site.cluster.vanish(site.pod()))))
    assert site.outcomes[0].may_be_alive
    assert [event.freed for event in of(site, LeaseReleased)] == [False]


@pytest.mark.parametrize("how", ["forced", "vanished"])
async def test_a_pod_that_went_without_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """What was removed at once, by a run in a hurry or by anybody, may write for a while: its lease has to expire."""
    monkeypatch.setattr("senro.app.runtime.shutdown.FORCE_SECONDS", 0.0)
    site = Site(tmp_path, plan_of(), course=stays(running()))
    site.cluster.stubborn = True
    go = site.engine.cancel if how == "forced" else lambda: site.cluster.vanish(site.pod())
    await run_with(site, at(site, (30, go)))
    (released,) = of(site, LeaseReleased)
    assert not released.freed
    assert released.message.startswith("a process of its pod may be alive")
    assert list(site.cluster.leases) == [("ci", HELD.name)]


async def test_a_pod_that_is_forced_after_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deletion was accepted, and somebody took its grace away before its removal began: its claim stays shut."""
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


async def test_a_retry_has_the_claim_again(tmp_path: Path) -> None:
    """Each attempt has the claim by its own lease, and between two of them others may have it."""
    again = {"retry": retry.on_any(attempts=2, delay=5)}
    site = Site(tmp_path, plan_of(of_step=again), course=in_turn(runs_for(1), runs_for(0)))
    assert await site.run() == "succeeded_with_recovery"
    assert [event.attempt for event in of(site, LeaseAcquired)] == [1, 2]
    assert [event.attempt for event in of(site, LeaseReleased)] == [1, 2]


@pytest.mark.parametrize("moment", ["waiting", "taking", "running"])
async def test_a_cancelled_run_frees_its_claims(tmp_path: Path, moment: str) -> None:
    """Whenever a run is cancelled, it gives back what it has, and nothing that it has not."""
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


async def test_giving_back_through_troubles(tmp_path: Path) -> None:
    """A lease that was touched meanwhile is read and deleted as it is now; a trouble is sat out."""
    site = Site(tmp_path, plan_of())
    site.cluster.fail("delete_lease", refused("delete lease", 409, "Conflict", "modified"))
    site.cluster.fail("delete_lease", refused("delete lease", 503, "", "away"))
    site.cluster.fail("delete_lease", refused("delete lease", 401, "Unauthorized", "Unauthorized"))
    await site.run()
    assert site.cluster.calls.count("delete_lease") == 4
    assert of(site, LeaseReleased)[0].freed
    assert not site.cluster.leases


@pytest.mark.parametrize("then", ["nothing", "another lease"])
async def test_a_giving_back_whose_answer_was_lost(tmp_path: Path, then: str) -> None:
    """It took effect, and nobody or the next holder has the claim by the time it is looked at: that is no loss."""
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


async def test_a_lost_answer_that_took_nothing(tmp_path: Path) -> None:
    """Its giving back did not arrive, and another took the very same lease over: that is a loss, and told as one."""
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
async def test_a_lease_that_lands_after_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """A write that was given up may still be carried out: the lease is looked for a while, and given back."""
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


async def test_a_lease_that_was_refused_is_not_looked_for(tmp_path: Path) -> None:
    """Who was told that another was faster has nothing on its way: cancelled, the run ends at once."""
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


async def test_a_lease_that_cannot_be_given_back(tmp_path: Path) -> None:
    """A lease that may not be deleted is left to expire, and the ledger quotes the refusal."""
    site = Site(tmp_path, plan_of())
    site.cluster.fail("delete_lease", refused("delete lease", 403, "Forbidden", "no"))
    await site.run()
    (released,) = of(site, LeaseReleased)
    assert released.message == (
        f"the lease {HELD.name} could not be deleted (delete lease: the apiserver answered 403 Forbidden: no): it "
        "expires 60 s after its last renewal"
    )
    assert ("build.make", released.message) in site.app.reporter.notes


async def test_a_lease_that_is_anothers_when_it_is_given_back(tmp_path: Path) -> None:
    """Found to be another's only when it should be deleted, it is reported as lost and left alone."""
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


async def test_a_lease_that_is_lost_while_its_pod_is_put_away(tmp_path: Path) -> None:
    """The step is over by then: it is not said to go on."""
    site = Site(tmp_path, plan_of(grace=120))
    site.cluster.stubborn = True
    rival = Rival(site)
    await run_with(site, at(site, (60, rival.take)))
    (lost,) = of(site, LeaseLost)
    assert lost.message == "w.s of run other-run has taken over the claim senro-cache"
    assert site.outcomes[0].kind == "succeeded"


async def test_a_giving_back_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not answer does not keep the run: the lease is left to expire."""
    monkeypatch.setattr("senro.app.pod.claim_leases.RELEASE_SECONDS", 0.05)
    site = Site(tmp_path, plan_of())
    site.cluster.hang("delete_lease")
    await site.run()
    assert of(site, LeaseReleased)[0].message == (
        f"the lease {HELD.name} could not be deleted: it expires 60 s after its last renewal"
    )


async def test_a_pending_claim_is_named(tmp_path: Path) -> None:
    """What a pod waits for, and why it is given up, ends with a sentence that names the claim."""
    words = '0/1 nodes are available: persistentvolumeclaim "senro-cache" not found.'
    unscheduled = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}],
    }
    site = Site(tmp_path, plan_of(start_timeout=60.0), course=stays(unscheduled))
    await site.run()
    told = "Create the claim senro-cache in the pod's namespace: senro creates none."
    assert [event.message for event in of(site, PodPending)] == ["", f"{words.rstrip('.')}. {told}"]
    (outcome,) = site.outcomes
    assert (outcome.infra_kind, outcome.message[-len(told) :]) == ("unschedulable", told)


async def test_a_pod_that_waits_for_its_volume_without_a_word(tmp_path: Path) -> None:
    """A node that says nothing, which a claim in use on another node looks like, is told as what it may be."""
    site = Site(tmp_path, plan_of(start_timeout=60.0), course=stays(waiting()))
    await site.run()
    messages = [event.message for event in of(site, PodPending)]
    assert any("it mounts the claim senro-cache; a ReadWriteOnce claim" in message for message in messages)


async def test_steps_of_one_run_take_turns(tmp_path: Path) -> None:
    """Of many steps that want one claim each waits for its turn without taking a place from a step that can run."""
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


async def test_a_turn_lasts_as_long_as_the_lease(tmp_path: Path) -> None:
    """A step keeps its turn until its pod is gone: the next one takes no place to wait for its own run's lease in."""
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
