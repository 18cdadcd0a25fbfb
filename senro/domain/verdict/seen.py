"""One observation beside the memory of the ones before it: what the rows of the table judge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from senro.domain.pod import ContainerStatus
from senro.domain.verdict.answers import Infra
from senro.domain.verdict.evidence import did_run, has_container, last_words, node_is_silent, shows_run
from senro.domain.verdict.signs import joined, sign_of

if TYPE_CHECKING:
    from senro.domain.pod import Pod
    from senro.domain.verdict.kinds import DidRun, InfraKind, Note
    from senro.domain.verdict.memory import Memory, Observation

FINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Seen:
    """The pod, the step's status in it (an empty one where there is none), and the memory brought up to them.

    `disrupted_before`: a disruption was known before this observation.
    """

    pod: Pod
    status: ContainerStatus
    observation: Observation
    memory: Memory
    disrupted_before: bool

    @property
    def final(self) -> bool:
        """Whether the pod has a phase that it never leaves."""
        return self.pod.status.phase in FINAL_PHASES

    def infra(
        self, kind: InfraKind, *, ran: DidRun | None = None, alive: bool = False, notes: tuple[Note, ...] = ()
    ) -> Infra:
        """Infra, named by the disruption where one is known, else `kind`; `ran` None is what the evidence says."""
        sign, terminated = self.memory.sign, self.status.state.terminated
        return Infra(
            kind=kind if sign is None else sign.kind,
            did_run=did_run(self.memory, self.status) if ran is None else ran,
            may_be_alive=alive,
            message=(sign.message if sign is not None else "") or last_words(self.pod, self.status),
            node=self.memory.node,
            notes=notes,
            code=terminated.exit_code if terminated is not None else None,
        )


def look(memory: Memory, observation: Observation, pod: Pod) -> Seen:
    """Bring the memory up to what this observation shows; nothing is judged yet."""
    status = pod.container(memory.step) or ContainerStatus()
    silent = observation.node_silent or node_is_silent(pod)
    sign = joined(memory.sign, sign_of(observation, pod, silent=silent), pod)
    started = memory.silent_since if memory.silent_since is not None else observation.at
    updated = replace(
        memory,
        ran=memory.ran or shows_run(status),
        waited=memory.waited or status.state.waiting is not None,
        contained=memory.contained or has_container(status),
        sign=sign,
        sign_at=memory.sign_at if memory.sign is not None else observation.at,
        silent_since=started if silent else None,
        node=pod.spec.node_name or memory.node,
    )
    return Seen(pod, status, observation, updated, disrupted_before=memory.sign is not None and sign is not None)
