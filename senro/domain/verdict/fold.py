"""The table of docs/design/verdicts.md#the-table as a fold: from what was known and what is seen to an answer.

Rows are tried in the page's order and the first that matches decides: 0 to 2 here, 3 to 10 in `ended`, 11 to 14 in
`alive`. Four places go beyond the page's letter, each to say more and never to say success: a disruption that is known
names the cause where an init container was killed or an end was made up (rows 3 and 4), a finish well before the pod's
deadline is believed as one well before any other disruption is (row 6), what is being taken away but neither ends nor
goes is given up after its grace and six minutes (row 11), and a 0 under Ready.reason PodCompleted is held as PodFailed
is (rows 8 and 9). For a node that shuts down, or is short of something, lets a command that traps SIGTERM end with 0;
the pod is Succeeded, and DisruptionTarget comes with that phase alone, a second later
(docs/design/pod-states.md#row-140-exit-code-0-under-a-disruption).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.domain.verdict.answers import Answer, Infra, TimedOut
from senro.domain.verdict.facts import gather_facts
from senro.domain.verdict.kinds import DidRun, InfraKind
from senro.domain.verdict.rules_ended import failed_start, finished, past_deadline, without_end
from senro.domain.verdict.rules_running import alive
from senro.domain.verdict.signals.container_state import end_of, failed_init

if TYPE_CHECKING:
    from senro.domain.verdict.facts import Facts
    from senro.domain.verdict.memory import Memory
    from senro.domain.verdict.observation import Observation


def observe(memory: Memory, observation: Observation) -> tuple[Answer, Memory]:
    """The answer to what has been seen so far, and the memory for the next observation.

    Never raises, whatever the pod holds. A pod without a uid is no pod that an apiserver sends: it says nothing,
    and the last answer stays.
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
    """Rows 3 to 14: the number of the one that decides, and its answer."""
    init = failed_init(facts.pod)
    if init is not None:  # row 3
        return failed_start(facts, *init)
    terminated = end_of(facts.status)
    if terminated is not None:  # rows 4 to 9
        return finished(facts, terminated)
    if not facts.final:  # rows 11 to 14
        return alive(facts)
    if facts.disruption is not None and facts.disruption.deadline:
        return 6, past_deadline(facts)
    return 10, without_end(facts)


def _gone(memory: Memory) -> Answer:
    """Row 2. A finish that was held is believed now: the word that it waited for will not come any more.

    Without one, a step that was only seen waiting may have started since: nobody can tell.
    """
    if memory.pending_exit is not None:
        return memory.pending_exit
    disruption = memory.disruption
    return Infra(
        kind=InfraKind.VANISHED if disruption is None else disruption.kind,
        did_run=DidRun.YES if memory.ran else DidRun.MAYBE,
        may_be_alive=memory.silent_since is not None,
        message="the pod is gone, and nothing said why" if disruption is None else disruption.message,
        node=memory.node,
    )
