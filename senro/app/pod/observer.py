"""Polls one pod from its creation to its settled answer, and lets other tasks wait for what it shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import anyio

from senro.domain.errors import ClusterError
from senro.domain.kube.event import ClusterEvent
from senro.domain.kube.pod import Pod
from senro.domain.verdict import Answer, DidRun, InfraKind, Memory, Observation, Patience, observe, wants_events
from senro.domain.verdict.creation import infra_from_refused_access
from senro.ports.clock import Clock
from senro.ports.pod_watch import PodWatch

T = TypeVar("T")

ListEvents = Callable[[], Awaitable[tuple[ClusterEvent, ...] | None]]
"""Lists the Events about the pod; returns None if that is forbidden."""


class PodObserver:
    """Folds the polls of a watch into an answer. Run `run` in a task; other tasks call `until`.

    `answer`: the answer so far; once it is settled it stays.
    `pod`: the pod of the latest poll, None after a 404.
    `last`: the last pod that a poll returned, or the created one.
    `observations`: how many polls were folded, the created pod included.
    `pod_ended`: set once the pod is gone or all its containers have ended, so that no exec in it goes on.
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
        self._polled_at = clock.monotonic()
        self._unobserved = 0.0
        self._timed_out = False
        self._deletion_requested = False
        self.observations = 0
        self.pod_ended = anyio.Event()
        self.pod: Pod | None = created
        self.last = created
        self.answer: Answer = memory.answer
        self._accept(*observe(memory, self._observation(created)), created)

    @property
    def node(self) -> str:
        """The name of the pod's node, empty before it is scheduled."""
        return self._memory.node

    @property
    def seen_running(self) -> bool:
        """Whether any poll has shown that the step's process was started."""
        return self._memory.ran

    @property
    def waiting_seconds(self) -> float:
        """How long the pod had been waiting for the same thing at the latest poll."""
        return self._polled_at - self._patience.since

    @property
    def unobserved_seconds(self) -> float:
        """The time between the first poll that showed the step running and the poll before it."""
        return self._unobserved

    async def run(self) -> None:
        """Poll until the answer is settled, and then until the pod has ended; the caller cancels it.

        A watch that gives up on the apiserver settles the answer too.
        """
        while not self.answer.settled:
            at_start = self._observation(None)
            try:
                pod = await self._watch.next()
            except ClusterError as error:
                ran = DidRun.YES if self.seen_running else DidRun.MAYBE
                self._settle(
                    infra_from_refused_access(
                        error, otherwise=InfraKind.APISERVER, did_run=ran, node=self.node, may_be_alive=True
                    )
                )
                return
            await self._fold(pod, at_start)
        await self._watch_to_the_end()

    async def _watch_to_the_end(self) -> None:
        """Poll until the pod has ended: files are downloaded from it after its answer was settled."""
        pod = self.pod
        while pod is not None and pod.status.phase not in ("Succeeded", "Failed"):
            try:
                pod = self.pod = await self._watch.next()
            except ClusterError:
                return
        self.pod_ended.set()

    async def delete(self, request: Callable[[], Awaitable[T]], *, timed_out: bool) -> T:
        """Await `request`, which deletes the pod, and return its result.

        Polls that begin after this call attribute the end of the pod to this deletion and not to the cluster;
        `timed_out` says that the step's timeout is its reason. The next poll begins at once after the request.
        """
        self._deletion_requested = True
        self._timed_out = self._timed_out or timed_out
        try:
            return await request()
        finally:
            self.nudge()

    def nudge(self) -> None:
        """Poll now instead of at the next interval."""
        self._watch.nudge()

    async def until(self, condition: Callable[[PodObserver], bool]) -> None:
        """Wait until `condition` holds or the answer is settled. It is checked after every poll."""
        while not (condition(self) or self.answer.settled):
            await self._changed.wait()

    async def next_poll_from_now(self) -> None:
        """Wait for the result of a poll that begins after this call, or for the answer to be settled."""
        seen = self.observations
        # The poll under way may have been answered before the event that the caller reacts to.
        for count in (seen + 1, seen + 2):
            self.nudge()
            await self._wait_for_observations(count)

    async def _wait_for_observations(self, count: int) -> None:
        await self.until(lambda observer: observer.observations >= count)

    def _observation(self, pod: Pod | None) -> Observation:
        return Observation(
            pod=pod, at=self._clock.monotonic(), timed_out=self._timed_out, deletion_asked=self._deletion_requested
        )

    async def _fold(self, pod: Pod | None, at_start: Observation) -> None:
        """Fold one poll, with the Events about the pod if the verdict depends on them and they may be listed.

        `at_start` has the flags from the start of the poll. After a 404 the current flags apply: a deletion that was
        requested during the poll explains it.
        """
        flags = at_start if pod is not None else self._observation(None)
        observation = replace(flags, pod=pod, at=self._clock.monotonic())
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
            return None  # Events are optional evidence
        if events is None:
            self._list_events = None
        return events

    def _accept(self, answer: Answer, memory: Memory, pod: Pod | None) -> None:
        at = self._clock.monotonic()
        if memory.ran and not self._memory.ran:
            self._unobserved = at - self._polled_at
        self._polled_at, self._memory, self.pod, self.last = at, memory, pod, pod or self.last
        self._patience = self._patience.after(answer, at)
        self._settle(self._patience.verdict(answer, at) or answer)

    def _settle(self, answer: Answer) -> None:
        self.answer = answer
        self.observations += 1
        self._changed.set()
        self._changed = anyio.Event()
