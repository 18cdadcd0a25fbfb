"""The table of design.md section 5 as a fold: from what was known and what is seen to an answer.

Rows are tried in the page's order and the first that matches decides: 0 to 2 here, 3 to 10 in `ended`, 11 to 14
in `alive`. Three places go beyond the page's letter, each to say more and never to say success: a disruption that
is known names the cause where an init container was killed or an end was made up (rows 3 and 4), a finish well
before the pod's deadline is believed as one well before any other disruption is (row 6), and what is being taken
away but neither ends nor goes is given up after its grace and six minutes (row 11).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from senro.domain.verdict.alive import alive
from senro.domain.verdict.answers import Answer, Cancelled, Infra, TimedOut
from senro.domain.verdict.ended import failed_start, finished, past_deadline, without_end
from senro.domain.verdict.evidence import failed_init
from senro.domain.verdict.kinds import DidRun, InfraKind
from senro.domain.verdict.seen import look

if TYPE_CHECKING:
    from senro.domain.verdict.memory import Memory, Observation
    from senro.domain.verdict.seen import Seen


def observe(memory: Memory, observation: Observation) -> tuple[Answer, Memory]:
    """The answer to what has been seen so far, and the memory for the next observation.

    Never raises, whatever the pod holds. A pod without a uid is no pod that an apiserver sends: it says nothing,
    and the last answer stays.
    """
    if memory.answer.settled:  # row 0
        return memory.answer, memory
    answer, after = _unsettled(memory, observation)
    return answer, replace(after, answer=answer)


def _unsettled(memory: Memory, observation: Observation) -> tuple[Answer, Memory]:
    if memory.held is None and observation.cancelled:  # row 1
        return Cancelled(), memory
    if memory.held is None and observation.timed_out:
        return TimedOut(), memory
    pod = observation.pod
    if pod is None or (pod.uid and pod.uid != memory.uid):  # row 2
        return _gone(memory), memory
    if not pod.uid:
        return memory.answer, memory
    return _judged(look(memory, observation, pod))


def _judged(seen: Seen) -> tuple[Answer, Memory]:
    init = failed_init(seen.pod)
    if init is not None:  # row 3
        return failed_start(seen, *init), seen.memory
    terminated = seen.status.state.terminated
    if terminated is not None:  # rows 4 to 9
        return finished(seen, terminated)
    if not seen.final:  # rows 11 to 14
        return alive(seen)
    if seen.memory.sign is not None and seen.memory.sign.deadline:  # row 6
        return past_deadline(seen), seen.memory
    return without_end(seen), seen.memory  # row 10


def _gone(memory: Memory) -> Answer:
    """Row 2. A finish that was held is believed now: the word that it waited for will not come any more.

    Without one, a step that was only seen waiting may have started since: nobody can tell.
    """
    if memory.held is not None:
        return memory.held
    sign = memory.sign
    return Infra(
        kind=InfraKind.VANISHED if sign is None else sign.kind,
        did_run=DidRun.YES if memory.ran else DidRun.MAYBE,
        may_be_alive=memory.silent_since is not None,
        message="the pod is gone, and nothing said why" if sign is None else sign.message,
        node=memory.node,
    )
