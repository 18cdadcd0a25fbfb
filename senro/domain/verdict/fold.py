"""The table of docs/design/verdicts.md#the-table as a fold over observations.

The first row that matches decides: rows 0 to 2 are here, 3 to 10 in `rules_ended`, 11 to 14 in `rules_running`.
"""

from __future__ import annotations

from senro.domain.verdict.answers import Answer, Infra, TimedOut
from senro.domain.verdict.facts import Facts, gather_facts
from senro.domain.verdict.kinds import DidRun, InfraKind
from senro.domain.verdict.memory import Memory
from senro.domain.verdict.observation import Observation
from senro.domain.verdict.rules_ended import failed_start, finished, past_deadline, without_end
from senro.domain.verdict.rules_running import alive
from senro.domain.verdict.signals.container_state import end_of, failed_init


def observe(memory: Memory, observation: Observation) -> tuple[Answer, Memory]:
    """The answer to all observations so far, and the memory for the next one.

    Never raises, whatever the pod contains. A pod without a uid comes from no apiserver: the latest answer stays.
    """
    if memory.answer.settled:  # row 0
        return memory.answer, memory
    pod = observation.pod
    if memory.pending_exit is None and observation.timed_out:
        return _settled(memory, 1, TimedOut())
    if pod is None or (pod.uid and pod.uid != memory.uid):
        return _settled(memory, 2, _gone(memory))
    if not pod.uid:
        return memory.answer, memory
    facts = gather_facts(memory, observation, pod)
    rule, answer = _judged(facts)
    return answer, facts.memory(answer, rule)


def _settled(memory: Memory, rule: int, answer: Answer) -> tuple[Answer, Memory]:
    return answer, memory._replace(answer=answer, rule=rule)


def _judged(facts: Facts) -> tuple[int, Answer]:
    """The number of the row, of rows 3 to 14, that matches, and its answer."""
    init = failed_init(facts.pod)
    if init is not None:  # row 3
        return failed_start(facts, *init)
    terminated = end_of(facts.status)
    if terminated is not None:  # rows 4 to 9
        return finished(facts, terminated)
    if not facts.final:  # rows 11 to 14
        return alive(facts)
    if facts.now.disruption is not None and facts.now.disruption.deadline:
        return 6, past_deadline(facts)
    return 10, without_end(facts)


def _gone(memory: Memory) -> Answer:
    """Row 2. An end that waited for the final phase is believed now, since no phase will come any more.

    Without one, a step that was only seen waiting may have started since.
    """
    if memory.pending_exit is not None:
        return memory.pending_exit
    disruption = memory.disruption
    return Infra(
        kind=InfraKind.VANISHED if disruption is None else disruption.kind,
        did_run=DidRun.YES if memory.ran else DidRun.MAYBE,
        may_be_alive=memory.silent_since is not None,
        message="the pod is gone, for an unknown reason" if disruption is None else disruption.message,
        node=memory.node,
    )
