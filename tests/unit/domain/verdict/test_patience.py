"""How long a step may wait to start, and the message when senro gives up."""

from __future__ import annotations

import pytest

from senro.domain.verdict import (
    Answer,
    DidRun,
    Infra,
    InfraKind,
    Patience,
    Pending,
    PendingKind,
    Running,
)
from senro.domain.verdict.kind_table import PENDING_KINDS
from senro.domain.verdict.patience import give_up
from tests.lib.verdict.observations import fold, recorded_pod

STAGE = "senro-stage"


def gave_up_after(pending: Pending, *, start_timeout: float = 300.0) -> int | None:
    """Returns the whole seconds of the same wait after which senro gives up."""
    for waited in range(100_000):
        if give_up(pending, waited_for_this_kind=waited, waited_in_all=waited, start_timeout=start_timeout):
            return waited
    return None


@pytest.mark.parametrize("kind", [kind for kind in PendingKind if PENDING_KINDS[kind].permanent])
def test_an_image_that_can_never_be_pulled(kind: PendingKind) -> None:
    """It ends after a short grace, with the kind of the wait."""
    pending = Pending(kind, STAGE, "the words", permanent=True)
    assert gave_up_after(pending) == 20
    answer = give_up(pending, waited_for_this_kind=20, waited_in_all=25)
    assert answer is not None
    assert (str(answer.kind), answer.did_run) == (str(kind), DidRun.NO)


@pytest.mark.parametrize(
    ("pending", "seconds"),
    [
        (Pending(PendingKind.CONFIG, "step", 'secret "db" not found'), 60),
        (Pending(PendingKind.CONFIG, "step", 'configmap "c" not found'), 60),
        (Pending(PendingKind.CONFIG, "step", "failed to sync secret cache: timed out"), 300),
        (Pending(PendingKind.IMAGE_UNREACHABLE, "step"), 300),
        (Pending(PendingKind.IMAGE_LIMITED, "step"), 300),
        (Pending(PendingKind.IMAGE_NOT_FOUND, "injected"), 300),
        (Pending(PendingKind.UNSCHEDULABLE), 300),
        (Pending(PendingKind.SCHEDULING), 300),
        (Pending(PendingKind.CREATING, "step"), 300),
        (Pending(PendingKind.INITIALIZING, "injected"), 300),
        (Pending(PendingKind.VOLUME, "step"), 300),
        (Pending(PendingKind.RUNTIME, "step"), 300),
        (Pending(PendingKind.GATED), 86_400),
        (Pending(PendingKind.STAGING, STAGE), None),
    ],
)
def test_each_kind_has_its_time(pending: Pending, seconds: int | None) -> None:
    """A temporary cause has the start timeout, a missing Secret a minute, a gate a day, staging no limit."""
    assert gave_up_after(pending) == seconds


def test_a_short_start_timeout() -> None:
    """A start timeout below the grace counts; the grace begins with the wait."""
    pending = Pending(PendingKind.IMAGE_DENIED, "step", permanent=True)
    assert gave_up_after(pending, start_timeout=5) == 5
    assert give_up(pending, waited_for_this_kind=19, waited_in_all=299) is None


@pytest.mark.parametrize("kind", list(PendingKind))
def test_every_kind_can_be_given_up(kind: PendingKind) -> None:
    """Every kind of wait but staging becomes a kind of Infra, with a message that ends with the hint."""
    answer = give_up(Pending(kind, "step"), waited_for_this_kind=1e6, waited_in_all=1e6)
    if kind is PendingKind.STAGING:
        assert answer is None
    else:
        assert answer is not None
        assert answer.message.endswith(answer.hint)


def test_the_message() -> None:
    """The message has the waiting container, the time, the cluster's message and the hint."""
    pending = Pending(PendingKind.IMAGE_NOT_FOUND, STAGE, "reg/x: not found", permanent=True)
    assert give_up(pending, waited_for_this_kind=20.4, waited_in_all=21) == Infra(
        InfraKind.IMAGE_NOT_FOUND,
        DidRun.NO,
        message=(
            "container senro-stage did not start in 20 s (image-not-found): reg/x: not found. "
            "Check the image's name and digest in its registry."
        ),
    )
    unnamed = give_up(Pending(PendingKind.SCHEDULING), waited_for_this_kind=1, waited_in_all=300)
    assert unnamed is not None
    assert unnamed.message == (
        "the pod did not start in 300 s (scheduling). Look at the pod's Events, or raise the target's start timeout."
    )


def waiting(patience: Patience, *steps: tuple[float, Answer]) -> Patience:
    for at, answer in steps:
        patience = patience.after(answer, at)
    return patience


def test_pull_and_back_off_are_one_wait() -> None:
    """ErrImagePull and ImagePullBackOff, as a real kubelet alternates them, are one wait."""
    pod = recorded_pod("image-pull-kinds", "r-pull-repository")
    answers = fold(pod.memory(), pod.observations[: pod.ours])
    patience = Patience(began=pod.observations[0].at)
    pulling = None
    for observation, answer in zip(pod.observations, answers, strict=False):
        patience = patience.after(answer, observation.at)
        if pulling is None and isinstance(answer, Pending) and answer.kind is PendingKind.IMAGE_NOT_FOUND:
            pulling = observation.at
        assert patience.verdict(answer, observation.at) is None
    assert pulling is not None
    assert patience.since == pulling
    assert patience.verdict(answers[-1], pulling + 19.5) is None
    given_up = patience.verdict(answers[-1], pulling + 20.0)
    assert given_up is not None
    assert given_up.kind is InfraKind.IMAGE_NOT_FOUND


def test_another_kind_or_container_is_another_wait() -> None:
    """The grace of a permanent failure begins with the failure, and is that of one container."""
    creating = Pending(PendingKind.CREATING, STAGE)
    denied = Pending(PendingKind.IMAGE_DENIED, STAGE, permanent=True)
    of_step = Pending(PendingKind.IMAGE_DENIED, "step", permanent=True)
    patience = waiting(Patience(began=0.0), (1, creating), (100, denied))
    assert patience.verdict(denied, 119) is None
    assert patience.verdict(denied, 120) is not None
    assert waiting(patience, (119, of_step)).verdict(of_step, 120) is None


@pytest.mark.parametrize("pause", [Pending(PendingKind.STAGING, STAGE), Pending(PendingKind.GATED)])
def test_staging_and_gates_stop_the_clock(pause: Pending) -> None:
    """The start timeout does not include the time of an upload or of a closed gate."""
    creating = Pending(PendingKind.CREATING, "step")
    patience = waiting(Patience(began=0.0), (0, creating), (10, pause), (1_000, pause), (4_010, creating))
    assert patience.verdict(pause, 4_010) is None
    assert patience.verdict(creating, 4_299) is None
    assert patience.verdict(creating, 4_300) is not None


def test_a_running_step_does_not_wait() -> None:
    """The answer Running changes no clock."""
    patience = Patience(began=0.0)
    assert patience.after(Running(), 1e6) == patience
    assert patience.verdict(Running(), 1e6) is None
