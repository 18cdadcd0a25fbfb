"""One pod, watched from its creation to its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from senro.domain.errors import ClusterError
from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import Pod
from senro.domain.verdict import Answer, DidRun, Memory, Observation, Patience, observe, wants_events
from senro.domain.verdict.creation import infra_from_error
from senro.ports.clock import Clock
from senro.ports.pod_watch import PodWatch

ListEvents = Callable[[], Awaitable[tuple[ClusterEvent, ...] | None]]
"""Lists the Events about the pod; None where that is not allowed."""


class PodObserver:
    """Folds what the watch sees, and lets others wait for what they need to see.

    `answer` is the newest, `pod` the pod that it was given for (None: gone), `last` the pod as it was last there. Set
    `timed_out` and `deletion_asked` before you act on them: the next observation that is asked for tells the verdict. A
    run that is cancelled cancels whoever waits here instead.
    """

    def __init__(
        self,
        watch: PodWatch,
        created: Pod,
        memory: Memory,
        patience: Patience,
        clock: Clock,
        *,
        list_events: ListEvents | None = None,
    ) -> None:
        self._watch = watch
        self._list_events = list_events
        self._memory = memory
        self._patience = patience
        self._clock = clock
        self._changed = anyio.Event()
        self._looked_at = clock.monotonic()
        self._hidden = 0.0
        self.observations = 0
        self.timed_out = False
        self.deletion_asked = False
        self.pod: Pod | None = created
        self.last = created
        self.answer: Answer = memory.answer
        self._accept(*observe(memory, self._observation(created)), created)

    @property
    def node(self) -> str:
        """The node's name, empty before there is one."""
        return self._memory.node

    @property
    def seen_running(self) -> bool:
        """Whether anything shows that the step's process was started."""
        return self._memory.ran

    @property
    def waiting_seconds(self) -> float:
        """How long the pod had waited for what it waits for now, when it was last looked at."""
        return self._looked_at - self._patience.since

    @property
    def unobserved_seconds(self) -> float:
        """How long the step may have run before it was first seen running: the gap between two observations."""
        return self._hidden

    async def run(self) -> None:
        """Watch until the answer is settled. Ends early for nothing: a control plane that stays away is an answer."""
        while not self.answer.settled:
            asked = self._observation(None)
            try:
                pod = await self._watch.next()
            except ClusterError as error:
                ran = DidRun.YES if self.seen_running else DidRun.MAYBE
                self._settle(infra_from_error(error, did_run=ran, node=self.node, may_be_alive=True))
                return
            await self._take(pod, asked)

    def nudge(self) -> None:
        """Something happened: look at once."""
        self._watch.nudge()

    async def until(self, condition: Callable[[PodObserver], bool]) -> None:
        """Wait until `condition` holds or the answer is settled, whichever comes first."""
        while not (condition(self) or self.answer.settled):
            await self._changed.wait()

    async def next_poll_from_now(self) -> None:
        """Wait for an observation that is asked for from now on, or for the answer to be settled."""
        seen = self.observations
        # The poll under way may have been answered before whatever the caller noticed: the one after it was not.
        for count in (seen + 1, seen + 2):
            self.nudge()
            await self._seen(count)

    async def _seen(self, count: int) -> None:
        await self.until(lambda observer: observer.observations >= count)

    def _observation(self, pod: Pod | None) -> Observation:
        return Observation(
            pod=pod,
            at=self._clock.monotonic(),
            timed_out=self.timed_out,
            deletion_asked=self.deletion_asked,
        )

    async def _take(self, pod: Pod | None, asked: Observation) -> None:
        """Judge what was seen, with the Events about it where they are wanted and may be read."""
        # A pod that is gone tells no time of its end: what was done to it while the poll was under way explains it.
        told = asked if pod is not None else self._observation(None)
        observation = replace(told, pod=pod, at=self._clock.monotonic())
        answer, memory = observe(self._memory, observation)
        if self._list_events is not None and wants_events(answer, memory, observation.at, pod):
            events = await self._events(self._list_events)
            if events is not None:
                answer, memory = observe(self._memory, replace(observation, events=events))
        self._accept(answer, memory, pod)

    async def _events(self, list_events: ListEvents) -> tuple[ClusterEvent, ...] | None:
        try:
            events = await list_events()
        except ClusterError:
            return None  # best effort: the pod is judged without them
        if events is None:
            self._list_events = None
        return events

    def _accept(self, answer: Answer, memory: Memory, pod: Pod | None) -> None:
        at = self._clock.monotonic()
        if memory.ran and not self._memory.ran:
            self._hidden = at - self._looked_at
        self._looked_at, self._memory, self.pod, self.last = at, memory, pod, pod or self.last
        self._patience = self._patience.seen(answer, at)
        self._settle(self._patience.verdict(answer, at) or answer)

    def _settle(self, answer: Answer) -> None:
        self.answer = answer
        self.observations += 1
        self._changed.set()
        self._changed = anyio.Event()
