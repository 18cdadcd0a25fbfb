from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.claims.lease import LEASE_SECONDS, Lease, LeaseSpec, Terms, decode_lease, describe_holder, micro_time
from senro.domain.kube.names import is_dns_label, lease_name
from senro.domain.kube.pod import Metadata
from senro.domain.manifests.identity import AttemptIdentity
from tests.lib.builders.leases import lease_of

TERMS = Terms("ci", "build-cache", "senro-build-cache", AttemptIdentity("run-1", "build.make", 2, "00ff"))
NOW = datetime(2026, 11, 29, 12, 0, 0, 120, tzinfo=UTC)
YEAR_1000 = datetime(1000, 1, 2)  # noqa: DTZ001 - hypothesis adds the zone
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_name_for_each_workspace(one: str, other: str) -> None:
    """Each workspace has a Lease name of its own, a DNS label."""
    assert is_dns_label(lease_name(one))
    assert (lease_name(one) == lease_name(other)) == (one == other)
    assert lease_name(one).startswith("senro-ws-")


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]), min_value=YEAR_1000))
def test_times_have_six_decimals(moment: datetime) -> None:
    """A time is in UTC with six decimals, which the apiserver requires."""
    written = micro_time(moment)
    assert MICRO_TIME.fullmatch(written)
    assert datetime.fromisoformat(written) == moment


def test_the_manifests_of_a_lease() -> None:
    """They have workspace, claim and attempt; a renewal keeps the time of acquisition, a take-over counts."""
    created = TERMS.manifest_to_create(NOW)
    assert created["metadata"] == {
        "name": lease_name("build-cache"),
        "namespace": "ci",
        "labels": {
            "senro.dev/managed": "true",
            "senro.dev/run": "run-1",
            "senro.dev/step": "build.make",
            "senro.dev/attempt": "2",
        },
        "annotations": {
            "senro.dev/step-id": "build.make",
            "senro.dev/attempt-uid": "00ff",
            "senro.dev/workspace": "build-cache",
            "senro.dev/claim": "senro-build-cache",
        },
    }
    assert created["spec"] == {
        "holderIdentity": "run-1/build.make/2/00ff",
        "leaseDurationSeconds": LEASE_SECONDS,
        "acquireTime": "2026-11-29T12:00:00.000120Z",
        "renewTime": "2026-11-29T12:00:00.000120Z",
        "leaseTransitions": 0,
    }
    stored = lease_of({**created, "metadata": {**created["metadata"], "uid": "u", "resourceVersion": "7"}})
    later = NOW + timedelta(seconds=20)
    renewed, taken = TERMS.manifest_to_renew(stored, later), TERMS.manifest_to_take_over(stored, later)
    for manifest in (renewed, taken):
        assert (manifest["metadata"]["uid"], manifest["metadata"]["resourceVersion"]) == ("u", "7")
        assert manifest["spec"]["renewTime"] == micro_time(later)
    assert (renewed["spec"]["acquireTime"], renewed["spec"]["leaseTransitions"]) == (micro_time(NOW), 0)
    assert (taken["spec"]["acquireTime"], taken["spec"]["leaseTransitions"]) == (micro_time(later), 1)


def test_a_foreign_lease() -> None:
    """A Lease without times, or with a huge count, can be taken over and renewed."""
    odd = Lease(Metadata(uid="u", resource_version="7"), LeaseSpec(lease_transitions=2**31 - 1))
    assert TERMS.manifest_to_take_over(odd, NOW)["spec"]["leaseTransitions"] == 2**31 - 1
    assert TERMS.manifest_to_renew(odd, NOW)["spec"]["acquireTime"] == micro_time(NOW)


@given(st.text(max_size=30))
def test_a_holder_can_be_printed(holder: str) -> None:
    """Any holderIdentity is printable."""
    assert describe_holder(holder)
    assert "\n" not in describe_holder(holder)


def test_a_holder_as_text() -> None:
    """A step is named with its run, any other holder as it is."""
    assert describe_holder(TERMS.holder) == "build.make of run run-1"
    assert describe_holder("somebody") == "somebody"
    assert describe_holder("a//b/c") == "a//b/c"
    assert describe_holder("") == "nobody"


def test_documents_that_are_no_lease() -> None:
    """What is not JSON raises ValueError; a field of a wrong type has its default."""
    with pytest.raises(ValueError, match="Expecting"):
        decode_lease(b"<html>")
    assert decode_lease(b'{"spec": {"holderIdentity": 7, "leaseDurationSeconds": "x"}}') == Lease()
