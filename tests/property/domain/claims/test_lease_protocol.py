"""Two coordinators and a Lease, in any interleaving: the guarantees of `senro.domain.claims.lease_protocol`.

The state machine has an apiserver with resourceVersions, and coordinators whose requests may be delayed, lost or late
in both directions, whose clocks differ in their start, in wall time by up to ten minutes and in speed by up to 5 %, and
which may be killed at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from senro.domain.claims.lease import LEASE_SECONDS, Lease, LeaseSpec, Terms
from senro.domain.claims.lease_protocol import (
    Create,
    Holding,
    LeaseObservation,
    Lost,
    Renew,
    TakeOver,
    Wait,
    after_conflict,
    next_move,
)
from senro.domain.kube.pod import Metadata
from senro.domain.manifests.identity import AttemptIdentity
from tests.lib.builders.leases import lease_of

SECONDS = 60
START = datetime(2026, 11, 29, 12, tzinfo=UTC)


class Server:
    """The Lease, or none. A write is refused unless it has the stored state."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None
        self.version = 0

    def read(self) -> Lease | None:
        return None if self.stored is None else lease_of(self.stored)

    def write(self, manifest: dict[str, Any]) -> Lease | None:
        """Returns the stored Lease, None for a 409."""
        before, meta = self.read(), manifest["metadata"]
        if (before.state if before else ("", "")) != (meta.get("uid", ""), meta.get("resourceVersion", "")):
            return None
        self.version += 1
        uid = meta.get("uid") or f"uid-{self.version}"
        self.stored = {**manifest, "metadata": {**meta, "uid": uid, "resourceVersion": str(self.version)}}
        return self.read()

    def delete(self, lease: Lease) -> None:
        stored = self.read()
        if stored is not None and stored.state == lease.state:
            self.stored = None


@dataclass
class Request:
    """A request: what it does at the server, what is done with its response, and when it was sent."""

    at_server: Callable[[], Any]
    answered: Callable[[Any], None]
    asked: float
    applied: bool = False
    answer: Any = None


@dataclass
class Coordinator:
    """A process that wants the Lease, like `senro.app.pod.claim_leases`; `rate` is the speed of its clock."""

    server: Server
    name: str
    rate: float
    skew: float
    origin: float
    real: Callable[[], float]
    number: int = 0
    observation: LeaseObservation = field(default_factory=LeaseObservation)
    holding: Holding | None = None
    lost: bool = False
    request: Request | None = None

    @property
    def terms(self) -> Terms:
        return Terms("ci", "cache", "claim", AttemptIdentity(self.name, "w.s", 1, str(self.number)), seconds=SECONDS)

    @property
    def at(self) -> float:
        return self.origin + self.rate * self.real()

    @property
    def wall(self) -> datetime:
        return START + timedelta(seconds=self.skew + self.real())

    @property
    def is_exclusive(self) -> bool:
        return self.holding is not None and self.holding.is_exclusive(self.at)

    def send(self) -> None:
        """Sends the next request."""
        if self.holding is not None:
            held = self.holding.lease
            if self.at >= self.holding.due:
                self._write(self.terms.manifest_to_renew(held, self.wall), self._look_again)
        else:
            self._ask(self.server.read, self._decide)

    def _ask(self, at_server: Callable[[], Any], answered: Callable[[Any], None]) -> None:
        self.request = Request(at_server, answered, self.at)

    def _write(self, manifest: dict[str, Any], refused: Callable[[], None]) -> None:
        asked = self.at

        def written(lease: Lease | None) -> None:
            if lease is None:
                refused()
            else:
                self.holding = Holding(lease, asked)

        self._ask(lambda: self.server.write(manifest), written)

    def _decide(self, lease: Lease | None) -> None:
        move, self.observation = next_move(self.observation, lease, at=self.at, holder=self.terms.holder)
        match move:
            case Create():
                self._write(self.terms.manifest_to_create(self.wall), lambda: None)
            case TakeOver(lease=before):
                self._write(self.terms.manifest_to_take_over(before, self.wall), lambda: None)
            case Renew(lease=before):
                self._write(self.terms.manifest_to_renew(before, self.wall), lambda: None)
            case Wait(holder=holder, seconds=seconds):
                assert holder != self.terms.holder
                assert 0 < seconds < SECONDS + 1e-6

    def _look_again(self) -> None:
        self._ask(self.server.read, self._looked)

    def _looked(self, lease: Lease | None) -> None:
        assert self.holding is not None
        left = after_conflict(self.holding, lease, holder=self.terms.holder)
        if isinstance(left, Lost):
            assert left.holder != self.terms.holder
            self.start_anew()
        else:
            self.holding = left

    def start_anew(self) -> None:
        """Begins another attempt with its own nonce."""
        self.number += 1
        self.observation, self.holding, self.request = LeaseObservation(), None, None

    def release(self) -> None:
        if self.holding is not None:
            self.server.delete(self.holding.lease)
        self.start_anew()


rates = st.floats(0.95, 1.05)
skews = st.floats(-600, 600)
passing = st.sampled_from([1.0, 19.0, 21.0, 34.0, 53.0, 56.0, 59.0, 61.0, 64.0]) | st.floats(0, 90)
"""Seconds, most of them around what the rules count: a third, nine tenths, the whole of a duration."""
who = st.integers(0, 1)


class Race(RuleBasedStateMachine):
    """Two coordinators compete for one Lease."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.server = Server()
        self.two: list[Coordinator] = []
        self.adrift: list[Request] = []
        """Given up by who sent them, and perhaps on their way still."""

    @initialize(rate=st.tuples(rates, rates), skew=st.tuples(skews, skews), origin=st.tuples(skews, skews))
    def begin(self, rate: tuple[float, float], skew: tuple[float, float], origin: tuple[float, float]) -> None:
        self.two = [
            Coordinator(self.server, name, rate[n], skew[n], origin[n], lambda: self.now)
            for n, name in enumerate(("run-a", "run-b"))
        ]

    @rule(seconds=passing)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(n=who, often=st.integers(1, 4))
    def has_its_way(self, n: int, often: int) -> None:
        """Sends some requests, each of which is answered at once."""
        for _ in range(often):
            self.acts(n)
            self.is_answered(n)

    @rule(n=who)
    def acts(self, n: int) -> None:
        if self.two[n].request is None:
            self.two[n].send()

    @rule(n=who)
    def arrives(self, n: int) -> None:
        request = self.two[n].request
        if request is not None and not request.applied:
            request.answer, request.applied = request.at_server(), True

    @rule(n=who)
    def is_answered(self, n: int) -> None:
        self.arrives(n)
        request = self.two[n].request
        if request is not None:
            self.two[n].request = None
            request.answered(request.answer)

    @rule(n=who)
    def is_lost(self, n: int) -> None:
        """Loses the request, or its response if the server has handled it."""
        request = self.two[n].request
        if request is not None and not request.applied:
            self.adrift.append(request)
        self.two[n].request = None

    @precondition(lambda self: self.adrift)
    @rule(first=st.booleans())
    def arrives_late(self, first: bool) -> None:
        self.adrift.pop(0 if first else -1).at_server()

    @precondition(lambda self: any(one.holding is not None for one in self.two))
    @rule(n=who, killed=st.booleans())
    def ends(self, n: int, killed: bool) -> None:
        """Releases the Lease, or is killed and restarted at once, which is the worst case."""
        self.is_lost(n)
        if killed:
            self.two[n].start_anew()
        else:
            self.two[n].release()

    @precondition(lambda self: self.server.stored is not None)
    @rule()
    def is_touched(self) -> None:
        """Another client writes a label, which changes the resourceVersion."""
        assert self.server.stored is not None
        self.server.version += 1
        self.server.stored["metadata"]["resourceVersion"] = str(self.server.version)

    @invariant()
    def one_is_exclusive(self) -> None:
        """At most one coordinator finds itself exclusive."""
        assert sum(one.is_exclusive for one in self.two) <= 1

    @invariant()
    def the_exclusive_one_is_the_holder(self) -> None:
        """The server's holder is the coordinator that finds itself exclusive."""
        for one in self.two:
            stored = self.server.read()
            assert not one.is_exclusive or (stored is not None and stored.holder == one.terms.holder)

    def teardown(self) -> None:
        """A third coordinator that reads every second gets the Lease after one duration."""
        third = Coordinator(self.server, "run-c", 1.0, 0.0, 0.0, lambda: self.now)
        before = self.server.read()
        looks = 0
        while not third.is_exclusive:
            self.now += 1 if looks else 0
            looks += 1
            third.send()
            while (request := third.request) is not None:
                third.request = None
                request.answered(request.at_server())
        assert looks <= (before.seconds + 2 if before is not None else 1)
        third.release()
        assert self.server.read() is None


TestRace = Race.TestCase


states = st.tuples(st.sampled_from(["u1", "u2"]), st.sampled_from(["1", "2"]))
holders = st.sampled_from(["", "me", "other"])
durations = st.none() | st.integers(-5, 90)
leases = st.builds(
    lambda state, holder, seconds: Lease(
        Metadata(uid=state[0], resource_version=state[1]),
        LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds),
    ),
    states,
    holders,
    durations,
)
moments = st.floats(0, 1e6)


@given(st.lists(st.tuples(st.none() | leases, st.floats(0, 100)), max_size=8))
@example([(Lease(spec=LeaseSpec(holder_identity="me")), 0)])
def test_when_a_lease_is_taken_over(seen: list[tuple[Lease | None, float]]) -> None:
    """Only after every read of a whole duration found it in the same state."""
    observation, at = LeaseObservation(), 0.0
    looks: list[tuple[tuple[str, str] | None, float]] = []
    for lease, later in seen:
        at += later
        move, observation = next_move(observation, lease, at=at, holder="me")
        if lease is None:
            assert move == Create()
        elif lease.holder == "me":
            assert move == Renew(lease)
        elif not lease.holder:
            assert move == TakeOver(lease)
        else:
            unchanged = at
            for state, moment in reversed(looks):
                if state != lease.state:
                    break
                unchanged = moment
            left = unchanged + lease.seconds - at
            assert move == (Wait("other", left) if left > 0 else TakeOver(lease))
        looks.append((lease.state if lease is not None and lease.holder == "other" else None, at))


@given(leases, moments)
def test_a_first_observer_waits(lease: Lease, at: float) -> None:
    """Who first reads a held Lease waits a full duration, whatever its times are."""
    move, _ = next_move(LeaseObservation(), lease, at=at, holder="nobody else")
    if lease.holder:
        assert isinstance(move, Wait)
        assert move.seconds == pytest.approx(lease.seconds)


@given(leases, moments, st.floats(0, 200))
def test_a_holder_renews_while_it_is_exclusive(lease: Lease, asked: float, later: float) -> None:
    """A renewal is due after a third of the duration, nine tenths of which are exclusive."""
    holding = Holding(lease, asked)
    assert holding.due == asked + lease.seconds / 3
    assert holding.is_exclusive(holding.due)
    assert holding.is_exclusive(asked + later) == (asked + later < asked + 0.9 * lease.seconds)


@given(leases, st.none() | leases, moments)
def test_a_holding_after_a_conflict(held: Lease, found: Lease | None, asked: float) -> None:
    """It stays only with the own identity and the same uid, and is exclusive no longer than before."""
    holding = Holding(held, asked)
    left = after_conflict(holding, found, holder="me")
    if found is not None and found.holder == "me" and found.metadata.uid == held.metadata.uid:
        assert left == Holding(found, asked)
    else:
        assert left == Lost("" if found is None else found.holder)


def test_a_missing_duration() -> None:
    """A Lease without a valid duration has senro's."""
    for written, seconds in ((None, LEASE_SECONDS), (0, LEASE_SECONDS), (-1, LEASE_SECONDS), (7, 7)):
        assert Lease(spec=LeaseSpec(lease_duration_seconds=written)).seconds == seconds
