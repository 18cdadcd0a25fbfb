"""Ends a step in a pod when its timeout has passed."""

from __future__ import annotations

from senro.app.attempt import Attempt
from senro.app.pod.cleanup import PodCleanup
from senro.app.pod.observer import PodObserver
from senro.domain.kube.pod import parse_time
from senro.domain.pipeline.step_mounts import claim_mounts
from senro.domain.transfer.containers import STEP_CONTAINER


async def enforce_timeout(attempt: Attempt, observer: PodObserver, cleanup: PodCleanup) -> None:
    """Request the pod's deletion once the step has run for its timeout. Returns at once for a step without one.

    If the step uses claims, the pod is then polled until this task is cancelled: the attempt still waits for the end of
    the log, and a pod that is gone afterwards no longer shows whether its step had ended.
    """
    timeout = attempt.step.timeout
    if timeout is None:
        return
    await observer.until(lambda seen: seen.seen_running)
    await attempt.services.clock.sleep(max(0.0, timeout - _ran_unobserved(attempt, observer)))
    if observer.answer.settled:
        return
    attempt.report_phase("timed out, ending")
    await cleanup.request_deletion(observer)
    if claim_mounts(attempt.step):
        await cleanup.watch_until_gone()


def _ran_unobserved(attempt: Attempt, observer: PodObserver) -> float:
    """Seconds that the step had run, by its container's startedAt, when a poll first showed it running.

    The time is of the node's clock, so it counts only up to the gap between two polls: neither an outage of the control
    plane nor a clock that is ahead changes the step's timeout.
    """
    status = observer.pod.container(STEP_CONTAINER) if observer.pod is not None else None
    running = status.state.running if status is not None else None
    started = parse_time(running.started_at) if running is not None else None
    if started is None:
        return 0.0
    elapsed = (attempt.services.clock.now() - started).total_seconds()
    return min(max(0.0, elapsed), observer.unobserved_seconds)
