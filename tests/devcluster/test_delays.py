"""How long a kubelet takes for its own steps, held to what the recordings measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from senro.devcluster.kubelet.delays import Delays
from tests.lib.harness.devcluster import Object, recording, state_of

State = Callable[[Object | None], bool]


def phase(name: str) -> State:
    return lambda pod: pod is not None and pod["status"]["phase"] == name


def step_is(kind: str) -> State:
    return lambda pod: pod is not None and kind in state_of(pod, "step")


def waits(reason: str) -> State:
    return lambda pod: pod is not None and state_of(pod, "step").get("waiting", {}).get("reason") == reason


def gone(pod: Object | None) -> bool:
    return pod is None


def final(pod: Object | None) -> bool:
    return pod is not None and pod["status"]["phase"] in {"Succeeded", "Failed"}


def between(scenario: str, first: State, then: State) -> float:
    """Recorded seconds from the first sight of one state of a scenario's pod to the next sight of the other."""
    began = None
    for exchange in recording(scenario)["exchanges"]:
        if exchange["request"]["method"] != "GET" or not exchange["request"]["path"].rpartition("/")[0].endswith(
            "pods"
        ):
            continue
        document = exchange["response"].get("json")
        pod = document if isinstance(document, dict) and document.get("kind") == "Pod" else None
        if began is None and first(pod):
            began = float(exchange["response"]["at"])
        elif began is not None and then(pod):
            return float(exchange["response"]["at"]) - began
    raise AssertionError(f"{scenario} shows no such states")


MEASURED = [
    ("phase", "exit-zero", step_is("terminated"), final),
    ("phase", "exit-three", step_is("terminated"), final),
    ("removal", "deleted-trap-zero", final, gone),
    ("removal", "evicted-api-trap-zero", final, gone),
    ("pull_shown", "image-pull-backoff", waits("ErrImagePull"), waits("ImagePullBackOff")),
    ("lost", "evicted-kubelet-killed", phase("Failed"), step_is("terminated")),
]


@pytest.mark.parametrize(("name", "scenario", "first", "then"), MEASURED, ids=[f"{m[0]}-{m[1]}" for m in MEASURED])
def test_a_delay_is_the_recorded_one(name: str, scenario: str, first: State, then: State) -> None:
    """At a real cluster's pace it is what was recorded, give or take a quarter and a poll."""
    measured = between(scenario, first, then)
    assert getattr(Delays(1.0), name)() == pytest.approx(measured, rel=0.25, abs=0.1)


def test_delays_stay_in_relation() -> None:
    """At a tenth of the pace every one of them is a tenth."""
    names = [name for name, _ in inspect.getmembers(Delays, inspect.isfunction) if not name.startswith("_")]
    given: dict[str, Object] = {"sandbox": {"volumes": True}, "pull_back_off": {"failures": 2}}
    assert len(names) > 10
    for name in names:
        slow, fast = (getattr(Delays(time_scale), name)(**given.get(name, {})) for time_scale in (1.0, 0.1))
        assert fast == pytest.approx(slow / 10), name
