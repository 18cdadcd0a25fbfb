"""What one observation shows, joined with what earlier ones showed: the input of the table's rows."""

from __future__ import annotations

from dataclasses import dataclass

from senro.domain.kube.pod import Condition, ContainerStatus, Pod
from senro.domain.verdict.answers import Answer, Infra, Pending
from senro.domain.verdict.disruption import disruption_of, merge
from senro.domain.verdict.kinds import DidRun, InfraKind, Note
from senro.domain.verdict.memory import Memory
from senro.domain.verdict.observation import Observation
from senro.domain.verdict.signals.container_state import has_container, last_words, shows_run

_NO_STATUS = ContainerStatus()
_NO_CONDITION = Condition()


@dataclass(slots=True)
class Facts:
    """The input of the rows, for one call of `observe`.

    `pod`: the pod.
    `status`: the status of the step's container, an empty one if there is none.
    `ready`: the pod's condition Ready, an empty one if there is none.
    `observation`: the observation that showed the pod.
    `before`: the memory of the earlier observations.
    `now`: the memory with this observation, but for the answer. A row may replace it.
    """

    pod: Pod
    status: ContainerStatus
    ready: Condition
    observation: Observation
    before: Memory
    now: Memory

    @property
    def final(self) -> bool:
        """Whether the pod has a phase that it never leaves (docs/design/pod-states.md#row-169-phase-unknown)."""
        return self.pod.status.phase in {"Succeeded", "Failed"}

    @property
    def disrupted_before(self) -> bool:
        """Whether an earlier observation showed the disruption."""
        return self.before.disruption is not None

    def did_run(self) -> DidRun:
        """Whether the command ran: yes if a poll showed it, no if its container only waited, else maybe."""
        if self.now.ran:
            return DidRun.YES
        if self.now.contained or (self.status.state.terminated is not None and not self.now.waited):
            return DidRun.MAYBE
        return DidRun.NO

    def infra(
        self, kind: InfraKind, *, ran: DidRun | None = None, alive: bool = False, notes: tuple[Note, ...] = ()
    ) -> Infra:
        """`Infra` of the disruption's kind if there is a disruption, else of `kind`. `ran` defaults to `did_run`."""
        disruption, terminated = self.now.disruption, self.status.state.terminated
        return Infra(
            kind=kind if disruption is None else disruption.kind,
            did_run=self.did_run() if ran is None else ran,
            may_be_alive=alive,
            message=(disruption.message if disruption is not None else "") or last_words(self.pod, self.status),
            node=self.now.node,
            notes=notes,
            code=terminated.exit_code if terminated is not None else None,
        )

    def memory(self, answer: Answer, rule: int) -> Memory:
        """The memory for the next observation."""
        at = self.now.waiting_since if _same_wait(self.before.answer, answer) else self.observation.at
        return self.now._replace(answer=answer, rule=rule, waiting_since=at)


def gather_facts(memory: Memory, observation: Observation, pod: Pod) -> Facts:
    """Joins the memory and an observation that shows `pod`. Judges nothing."""
    status = pod.container(memory.step) or _NO_STATUS
    ready = target = _NO_CONDITION
    containers_ready = ""
    # One pass from the end: of two conditions of one type, which no apiserver sends, the first counts.
    for condition in reversed(pod.status.conditions):
        if condition.type == "Ready":
            ready = condition
        elif condition.type == "ContainersReady":
            containers_ready = condition.status
        elif condition.type == "DisruptionTarget":
            target = condition
    # The node controller sets Ready to False, gives no reason, and leaves ContainersReady as it was
    # (docs/design/pod-states.md#row-84-ready, recording node-lost).
    silent = ready.status == "False" and not ready.reason and containers_ready == "True"
    shown = disruption_of(observation, pod, step=memory.step, ready=ready, target=target, silent=silent)
    state = status.state
    runs = state.running is not None
    at = observation.at
    now = memory._replace(
        ran=memory.ran or runs or shows_run(status),
        waited=memory.waited or state.waiting is not None,
        contained=memory.contained or has_container(status),
        disruption=merge(memory.disruption, shown, target),
        disruption_at=at if memory.disruption is None else memory.disruption_at,
        lost_since=None if runs else memory.lost_since,
        silent_since=(at if memory.silent_since is None else memory.silent_since) if silent else None,
        node=pod.spec.node_name or memory.node,
    )
    if observation.events is not None:
        now = now._replace(events=observation.events, events_at=at)
    return Facts(pod, status, ready, observation, memory, now)


def _same_wait(before: Answer, answer: Answer) -> bool:
    if not (isinstance(before, Pending) and isinstance(answer, Pending)):
        return False
    return before.kind is answer.kind and before.container == answer.container
