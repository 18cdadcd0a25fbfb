"""Why a pod has its answer: what `senro.classify` returns and `senro explain` prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from senro.domain.kube.pod import Pod
from senro.domain.verdict import (
    Answer,
    Exited,
    Infra,
    InfraKind,
    Memory,
    Note,
    Observation,
    Pending,
    PendingKind,
    TimedOut,
    observe,
)
from senro.domain.verdict.explain.evidence_lines import evidence_lines
from senro.domain.verdict.explain.matching_states import rows_of
from senro.domain.verdict.explain.sentences import RULES, hint, sentence
from senro.domain.verdict.kind_table import INFRA_KINDS, PENDING_KINDS
from senro.domain.verdict.signals.container_state import failed_init
from senro.domain.verdict.signals.known_states import Row, Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The answer of one pod, and why.

    `pod`, `namespace`, `uid`, `node`: the names of the pod and of its node.
    `container`: the container that counts as the step's.
    `seen`: the number of observations.
    `answer`: a `senro.domain.verdict.Answer`. If it is settled, later observations do not change it.
    `rule`: the row of docs/design/verdicts.md#the-table that gave it.
    `because`: a sentence for that row.
    `sentence`: a sentence for the answer.
    `hint`: what a person can do, empty if nothing.
    `commands`: commands that show more.
    `evidence`: what the pod showed when the answer was given.
    `rows`: the known states in it (`senro/domain/verdict/signals/known_states.py`).
    """

    pod: str
    namespace: str
    uid: str
    node: str
    container: str
    seen: int
    answer: Answer
    rule: int
    because: str
    sentence: str
    hint: str
    commands: tuple[str, ...]
    evidence: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def word(self) -> str:
        """The type of the answer, as in `expected.json` of the recordings."""
        return "timed_out" if isinstance(self.answer, TimedOut) else type(self.answer).__name__.lower()


def classified(memory: Memory, observations: Sequence[Observation]) -> Classification:
    """Folds `observations`, at least one of which has a pod, and explains the answer."""
    decisive, first = 0, next(each.pod for each in observations if each.pod is not None)
    for index, observation in enumerate(observations):
        before = memory.answer
        answer, memory = observe(memory, observation)
        if answer != before or not answer.settled:
            decisive = index
    pods = [each.pod for each in observations[: decisive + 1] if each.pod is not None and each.pod.uid == first.uid]
    shown = pods[-1] if pods else first
    gone = observations[decisive].pod is not shown
    events = memory.events
    rows = rows_of(shown, memory.step, events)
    return Classification(
        pod=first.name,
        namespace=first.namespace,
        uid=first.uid,
        node=memory.node,
        container=memory.step,
        seen=len(observations),
        answer=memory.answer,
        rule=memory.rule,
        because=RULES[memory.rule],
        sentence=sentence(memory.answer, memory),
        hint=" ".join(part for part in (*_details(memory.answer, rows), hint(memory.answer)) if part),
        commands=tuple(_commands(memory.answer, shown, memory)),
        evidence=(
            *(("the pod is gone (404, or its name has another uid); its last state:",) if gone else ()),
            *evidence_lines(shown, memory.step, ours=observations[decisive].deletion_asked, events=events),
        ),
        rows=rows,
    )


def _details(answer: Answer, rows: Sequence[Row]) -> Iterator[str]:
    """What is known of the scheduler's or the kubelet's reason, of which the answer's kind covers many."""
    match answer:
        case Pending(kind=PendingKind.UNSCHEDULABLE):
            wanted = Where.SCHEDULER
        case Infra(kind=InfraKind.REJECTED):
            wanted = Where.POD
        case _:
            return
    yield from (f"{row.why[0].upper()}{row.why[1:]}." for row in rows if row.where is wanted)


def _commands(answer: Answer, pod: Pod, memory: Memory) -> Iterator[str]:
    """The commands that show more. Logs last as long as the pod does, Events an hour."""
    namespace, name = shlex.quote(pod.namespace or "default"), shlex.quote(pod.name)
    init = failed_init(pod)
    log = f"kubectl logs -n {namespace} {name} -c "
    match answer:
        case Exited(code=code, notes=notes):
            if Note.DISRUPTION_UNCHECKED in notes:
                yield f"kubectl events -n {namespace} --for pod/{name}"
            elif code != 0 and Note.START_ERROR not in notes:
                yield log + shlex.quote(memory.step)
        case Infra() if init is not None:
            yield log + shlex.quote(init[0])
        case Pending(kind=kind) if PENDING_KINDS[kind].see_events:
            yield f"kubectl events -n {namespace} --for pod/{name}"
        case Infra(kind=kind) if INFRA_KINDS[kind].see_node and memory.node:
            yield f"kubectl describe node {shlex.quote(memory.node)}"
        case _:
            return
