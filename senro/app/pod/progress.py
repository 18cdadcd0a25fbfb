"""Reports what a pod is doing, to the ledger and to the reporter."""

from __future__ import annotations

from collections.abc import Callable

from senro.app.attempt import Attempt
from senro.app.pod.observer import PodObserver
from senro.domain.claims.messages import pending_message
from senro.domain.pipeline.step_mounts import claim_names
from senro.domain.run.events import PodPending, StepRunning
from senro.domain.verdict import Answer, Ending, Pending, PendingKind, Running


async def report_progress(attempt: Attempt, observer: PodObserver) -> None:
    """Record each change of what the pod waits for, and that the step runs, until the answer is settled."""
    reported = ""
    claims = claim_names(attempt.step)
    while not observer.answer.settled:
        answer, seen = observer.answer, observer.observations
        phase = _phase(answer, claims, observer.waiting_seconds)
        if phase != reported:
            reported = phase
            if isinstance(answer, Pending) and answer.kind is not PendingKind.STAGING:
                attempt.report_phase(phase)
                await attempt.recorder.record(
                    PodPending(
                        **attempt.event_fields,
                        kind=str(answer.kind),
                        container=answer.container,
                        message=pending_message(answer, claims, waited=observer.waiting_seconds),
                    )
                )
            elif isinstance(answer, Running) and not answer.finishing:
                attempt.report_phase(phase)
                await attempt.recorder.record(StepRunning(**attempt.event_fields, node=observer.node))
            elif isinstance(answer, Ending):
                attempt.report_phase(phase)
        await observer.until(_more_observations(seen))


def _more_observations(count: int) -> Callable[[PodObserver], bool]:
    """A predicate: more than `count` observations were made."""
    return lambda observer: observer.observations > count


def _phase(answer: Answer, claims: tuple[str, ...], waited: float) -> str:
    """The text that the reporter shows for an answer that is not settled."""
    match answer:
        case Pending(kind=kind):
            message = pending_message(answer, claims, waited=waited)
            return f"waiting: {kind}" + (f" ({message})" if message else "")
        case Running():
            return "running"
        case Ending(kind=kind):
            return f"the cluster is removing the pod: {kind}"
        case _:
            return ""
