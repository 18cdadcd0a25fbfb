"""What becomes of one pod, from the scheduler to its removal: the status sequences of the recordings.

More than 500 lines: the order of one pod's states is one idea, and it is read from top to bottom.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from senro.devcluster.apiserver.status import PODS, Refused
from senro.devcluster.clock import now_text
from senro.devcluster.containers.memory import MemoryWatch
from senro.devcluster.kubelet import status as pod_status
from senro.devcluster.kubelet.events import ATTACH_DETACH
from senro.devcluster.kubelet.starting import NotStartedError, RunningContainer, Starter
from senro.devcluster.kubelet.status import PodState
from senro.devcluster.kubelet.volumes import NotYetError, over_limit, set_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.containers.log import ContainerLog
    from senro.devcluster.containers.pipes import ReadEnd
    from senro.devcluster.containers.runtime import Container
    from senro.devcluster.kubelet.node import Node
    from senro.devcluster.kubelet.services import Services
    from senro.devcluster.kubelet.starting import Outputs
    from senro.devcluster.kubelet.status import ContainerState
    from senro.devcluster.objects import Object

_READ = 65_536
_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
_EVICTION_GRACE = 1.0
"""Seconds: what the kubelet gives a pod that broke a limit of its own
(docs/design/pod-states.md#row-156-order-of-an-eviction)."""


class PodWorker:
    """The life of one pod. `run` is its only task; `stop` may be called at any time from the same event loop."""

    def __init__(
        self,
        pod: Object,
        *,
        folder: Path,
        services: Services,
        address: str,
        find_node: Callable[[str], Node | None],
        observe: Callable[[Object, str, str], None],
        repeats: Callable[[Object], bool],
    ) -> None:
        self.uid = str(pod["metadata"]["uid"])
        self.namespace = str(pod["metadata"]["namespace"])
        self.name = str(pod["metadata"]["name"])
        self.labels: dict[str, str] = pod["metadata"].get("labels") or {}
        self.started: dict[str, int] = {}
        """How many times each container's command was started."""
        self.node: Node | None = None
        """The node it is bound to; None before."""
        self._pod = pod
        self._folder = folder
        self._services = services
        self._storage, self._clock, self._delays = services.storage, services.clock, services.delays
        self._recorder = services.recorder
        self._address = address
        self._find_node = find_node
        self._observe = observe
        self._repeats = repeats
        initial = pod["spec"].get("initContainers") or []
        reason = "PodInitializing" if initial else "ContainerCreating"
        self.state = PodState(
            start_time="",
            containers=pod_status.waiting_states(pod["spec"]["containers"], reason),
            init_containers=pod_status.waiting_states(initial, reason),
        )
        self._starter = Starter(
            folder=folder,
            runtime=services.runtime,
            clock=services.clock,
            recorder=services.recorder,
            images=services.images,
            log_limit=services.log_limit,
            find=self._find,
        )
        self._volumes: dict[str, Path] = {}
        self._stopping = anyio.Event()
        self._bring_up_scope = anyio.CancelScope()
        self._brought_up = anyio.Event()
        self._ended = anyio.Event()
        self._ends = 0
        self._ends_told = 0
        self._kill_at: float | None = None
        self._killed = False
        self._grace_changed = anyio.Event()
        self._eviction: tuple[str, str, bool] | None = None
        self._told_ends: set[str] = set()
        self._rejected = False
        self.traps_term = False
        """SIGTERM ends its containers with 0 from now on, as one that traps it: a fault's doing."""

    def log_of(self, container: str) -> ContainerLog | None:
        """The log of a container that was started, else None."""
        running = self._starter.running.get(container)
        return running.log if running is not None else None

    def container(self, name: str) -> Container | None:
        """The container, if its process runs and may be entered."""
        return None if self._killed else self._alive(name)

    def state_of(self, container: str) -> ContainerState | None:
        """The kubelet's own knowledge of a container, ahead of what it has published."""
        return self.state.containers.get(container) or self.state.init_containers.get(container)

    def stop(self, grace_seconds: float) -> None:
        """End the containers: SIGTERM now, SIGKILL after the grace. A second call can only shorten it."""
        end = self._clock.seconds() + max(grace_seconds, self._delays.least_grace())
        if self._kill_at is None or end < self._kill_at:
            self._kill_at = end
            happened, self._grace_changed = self._grace_changed, anyio.Event()
            happened.set()
        self._stopping.set()
        self._bring_up_scope.cancel()

    def runs(self, container: str) -> bool:
        """Whether that container's process is alive, whatever anybody was told of it."""
        return self._alive(container) is not None

    def _alive(self, name: str) -> Container | None:
        running = self._starter.running.get(name)
        if running is None or running.container is None or running.container.process.has_exited():
            return None
        return running.container

    def kill(self) -> None:
        """SIGKILL to every container at once; none of them can be entered from now on."""
        self._killed = True
        for running in self._starter.running.values():
            if running.container is not None:
                running.container.kill()

    def end_by_kubelet(self, reason: str, message: str, *, condition: bool = False, grace: float | None = None) -> None:
        """Take the pod off its node: Evicted, Terminated (a shutdown), Preempting. Shown once its containers ended.

        `condition` adds DisruptionTarget with TerminationByKubelet, as for pressure and shutdowns but not for a limit
        of the pod's own (docs/design/pod-states.md#row-69-evicted-while-running).
        """
        if self.state.final or self._eviction is not None or self._stopping.is_set():
            return
        self._eviction = (reason, message, condition)
        self._recorder.warning(self._pod, reason, message)
        self.stop(_EVICTION_GRACE if grace is None else grace)

    def exceed_memory(self, container: str) -> None:
        """End a container as the kernel does for its memory limit."""
        running, state = self._starter.running.get(container), self.state_of(container)
        if running is not None and running.container is not None and state is not None:
            state.out_of_memory = True
            running.container.kill()

    async def run(self) -> None:
        """Live the pod's whole life; returns when nothing of it runs any more."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_deadline)
                tasks.start_soon(self._watch_volumes)
                tasks.start_soon(self._bring_up, tasks)
                await self._until_ended(tasks)
                tasks.cancel_scope.cancel()
        finally:
            self.kill()
            self._services.claims.detach(self.uid)

    async def fail(self, message: str) -> None:
        """Fail the pod for an error of the kubelet's own that ended `run`; nothing of it runs any more.

        A pod of which nothing has run is rejected; of another the statuses stay, for a command that did run must not
        look as if it had not.
        """
        await self._reachable()
        if not self.started:
            self._reject("UnexpectedAdmissionError", message)
        elif not self.state.final:
            for state in (*self.state.containers.values(), *self.state.init_containers.values()):
                if state.exit_code is None:
                    state.give_up()
            self.state.failed = self.state.final = True
            self.state.sandbox_ready = False
            self.state.reason, self.state.message = "InternalError", message
            self._publish()
        if self._being_deleted():
            self._storage.remove(PODS, self.namespace, self.name, uid=self.uid)

    async def forget(self) -> None:
        """Give back the logs and the folder; the pod is gone from the API."""
        self._starter.close()
        await anyio.to_thread.run_sync(_remove_tree, self._folder)

    # --- bringing up -------------------------------------------------------------------------------------------

    async def _bring_up(self, tasks: anyio.abc.TaskGroup) -> None:
        try:
            with self._bring_up_scope:
                await self._bring_up_unless_stopped(tasks)
        finally:
            self._brought_up.set()

    async def _bring_up_unless_stopped(self, tasks: anyio.abc.TaskGroup) -> None:
        self._observe(self._pod, "scheduling", "")
        await self._clock.sleep(self._delays.schedule())
        if not await self._admit():
            return
        self._volumes = await self._set_up_volumes()
        await self._clock.sleep(self._delays.sandbox(volumes=bool(self._volumes)))
        self.state.sandbox_ready = True
        self._publish()
        self.state.address = self._address
        for container in self._pod["spec"].get("initContainers") or []:
            if not await self._run_init_container(container, tasks):
                return
        await self._clock.sleep(self._delays.start())
        # A container that cannot start yet keeps no other from it (recording injected-sidecars).
        late = [
            (container, failure)
            for container in self._pod["spec"]["containers"]
            if (failure := await self._try_to_start(container, self.state.containers[container["name"]], tasks))
        ]
        self._brought_up.set()
        self._show_started()
        async with anyio.create_task_group() as retries:
            for container, failure in late:
                retries.start_soon(self._keep_trying, container, self.state.containers, failure, tasks)

    def _show_started(self) -> None:
        self._publish()
        for name, state in self.state.containers.items():
            # One that has ended already did run: a disruption that comes now is seen together with its end.
            if state.started_at:
                self._observe(self._pod, "middle", name)

    async def _admit(self) -> bool:
        """Wait for a node and for its kubelet's first word; False where that is a rejection."""
        name = self._pod["spec"].get("nodeName") or await self._services.scheduler.assign(
            self.namespace, self.name, self.uid
        )
        while (node := self._find_node(name)) is None:
            # Bound to a node that is not there: nobody ever looks at it.
            await self._storage.changed()
        self.node = node
        self._pod = self._storage.find(PODS, self.namespace, self.name) or self._pod
        await self._clock.sleep(self._delays.admit())
        await node.reachable()
        self.state.start_time = now_text(self._clock)
        self.state.host_address = node.address
        self._publish()
        return True

    def _reject(self, reason: str, message: str) -> None:
        def change(pod: Object) -> None:
            pod["status"] = pod_status.rejected(pod, reason, message, now_text(self._clock))

        self._rejected = True
        # Nothing is known of a container, for whoever asks for its log either.
        self.state.containers, self.state.init_containers = {}, {}
        self._recorder.warning(self._pod, reason, message)
        self._change(change)

    async def _set_up_volumes(self) -> dict[str, Path]:
        """Wait until every claim is attached to this node and every volume holds what it has to."""
        volumes = self._pod["spec"].get("volumes") or []
        while True:
            await self._attach_volumes()
            try:
                return set_up(
                    self._folder / "volumes", volumes, self._find, self._services.claims.folder(self.namespace)
                )
            except NotYetError as error:
                message = f'MountVolume.SetUp failed for volume "{error.volume}" : {error}'
                self._recorder.warning(self._pod, "FailedMount", message)
                # A claim that comes meanwhile is not attached yet: it is asked for again.
                await self._clock.sleep(self._delays.retry())

    async def _attach_volumes(self) -> None:
        """Wait until every claim can be attached to this node; the controller says once what it waits for."""
        claims, told = self._services.claims, ""
        node = self.node.name if self.node is not None else ""
        while words := claims.attach(self._pod, node):
            if words != told:
                told = words
                self._recorder.warning(self._pod, "FailedAttachVolume", words, by=ATTACH_DETACH)
            await claims.detached()

    async def _run_init_container(self, container: Object, tasks: anyio.abc.TaskGroup) -> bool:
        while await self._run_init_container_once(container, tasks):
            if not self._repeats(self._pod):
                return True
            self.state.init_containers |= pod_status.waiting_states([container], "PodInitializing")
        return False

    async def _run_init_container_once(self, container: Object, tasks: anyio.abc.TaskGroup) -> bool:
        await self._clock.sleep(self._delays.start())
        name = container["name"]
        state = self.state.init_containers[name]
        failure = await self._try_to_start(container, state, tasks)
        if failure is not None:
            self._publish()
            await self._keep_trying(container, self.state.init_containers, failure, tasks)
        running = self._starter.running.get(name)
        if running is not None and running.container is not None:
            self._publish()
            self._observe(self._pod, "stage", name)
            await running.container.process.wait()
            while state.exit_code is None:
                await self._ended.wait()
            self._observe(self._pod, "release", name)
        await self._clock.sleep(self._delays.relist())
        if state.succeeded:
            self._publish()
        return state.succeeded

    async def _try_to_start(
        self, container: Object, state: ContainerState, tasks: anyio.abc.TaskGroup
    ) -> NotStartedError | None:
        """Start it, or say why it has to wait."""
        name = container["name"]
        self._observe(self._pod, "image", name)
        await anyio.lowlevel.checkpoint()
        try:
            outputs = await self._starter.start(self._pod, container, state, self._volumes)
        except NotStartedError as failure:
            state.waiting, state.waiting_message = failure.reason, failure.message
            return failure
        running = self._starter.running[name]
        if running.container is not None:
            self.started[name] = self.started.get(name, 0) + 1
            tasks.start_soon(self._attend, running, state, outputs)
            self._observe(self._pod, "start", name)
        else:
            outputs.stdout.close()
            outputs.stderr.close()
        return None

    async def _keep_trying(
        self,
        container: Object,
        states: dict[str, ContainerState],
        failure: NotStartedError,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        """Try again until it starts: with a growing back-off where an image could not be pulled."""
        state = states[container["name"]]
        failures = 0
        while True:
            if failure.pull:
                failures += 1
                await self._until_next_look()
                self._starter.back_off(self._pod, container, state)
                self._publish()
                await self._clock.sleep(self._delays.pull_back_off(failures))
            else:
                await self._clock.sleep(self._delays.retry())
            again = await self._try_to_start(container, state, tasks)
            if again is None:
                if states is self.state.containers:
                    self._show_started()
                return
            failure = again
            self._publish()

    async def _until_next_look(self) -> None:
        """The kubelet looks at a pod again after a while, or as soon as one of its containers has ended."""
        async with anyio.create_task_group() as race:
            race.start_soon(_cancel_after, self._ended, race.cancel_scope)
            await self._clock.sleep(self._delays.pull_shown())
            race.cancel_scope.cancel()

    async def _attend(self, running: RunningContainer, state: ContainerState, outputs: Outputs) -> None:
        """Pump a container's output into its log, and take down its end."""
        container = running.container
        if container is None:
            return
        watch = None
        if running.memory_limit and container.cgroup is None:
            watch = MemoryWatch(running.memory_limit, container.processes)
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(_pump, outputs.stdout, running.log, "stdout")
            pumps.start_soon(_pump, outputs.stderr, running.log, "stderr")
            async with anyio.create_task_group() as watching:
                if watch is not None:
                    watching.start_soon(watch.run)
                try:
                    code = await container.process.reap()
                finally:
                    state.out_of_memory |= container.out_of_memory or (watch is not None and watch.killed)
                    container.release()
                watching.cancel_scope.cancel()
        running.log.end()
        if self.traps_term and self._stopping.is_set():
            code = 0
        state.exit_code = code
        state.reason = "Completed" if code == 0 else "Error"
        if state.out_of_memory:
            # A child's end is enough, and the code may be 0 (recording oom-child).
            state.reason = "OOMKilled"
        state.finished_at = now_text(self._clock)
        self._ends += 1
        happened, self._ended = self._ended, anyio.Event()
        happened.set()

    # --- ending ------------------------------------------------------------------------------------------------

    async def _until_ended(self, tasks: anyio.abc.TaskGroup) -> None:
        """Publish ends as the kubelet notices them, until the pod is over or has to stop."""
        await self._either(self._brought_up, self._stopping)
        if self._rejected:
            return
        self._observe_ends()
        while not self._stopping.is_set() and not self.state.outcome():
            await self._either(self._ended, self._stopping)
            if not self._stopping.is_set():
                await self._clock.sleep(self._delays.relist())
                if not self._stopping.is_set():
                    self._publish()
                    self._observe_ends()
        if not self._stopping.is_set():
            # An init container that failed, or a container that never started, has not been told of yet.
            self._publish()
            self._observe_ends()
            with anyio.CancelScope() as waiting:
                tasks.start_soon(self._cancel_on_stop, waiting)
                await self._clock.sleep(self._delays.phase())
        if self._stopping.is_set():
            await self._end_containers()
        await self._say_the_last_word()
        if self._being_deleted():
            await self._clock.sleep(self._delays.removal())
            await self._reachable()
            self._storage.remove(PODS, self.namespace, self.name, uid=self.uid)

    async def _say_the_last_word(self) -> None:
        """The final phase, with what it was that ended the pod."""
        await self._reachable()
        lost = False
        if self._eviction is not None and not self._all_succeeded():
            # Where everything ended with 0 nothing tells of the eviction (recording evicted-kubelet-trap-zero).
            self.state.failed = True
            self.state.reason, self.state.message, condition = self._eviction
            lost = self.state.reason == "Evicted"
            if condition:
                self._add_condition("TerminationByKubelet", self.state.message)
            if lost:
                for name, state in self.state.containers.items():
                    state.lose()
                    if (log := self.log_of(name)) is not None:
                        log.lost = True
        elif self._stopping.is_set():
            self._give_up_unstarted()
        self.state.final = True
        self.state.sandbox_ready = False
        self._publish()
        if lost:
            await self._clock.sleep(self._delays.lost())
            for state in self.state.containers.values():
                state.give_up()
            self._publish()

    def _all_succeeded(self) -> bool:
        return all(state.succeeded for state in self.state.containers.values())

    def _give_up_unstarted(self) -> None:
        """A container that was still waiting when its pod had to go ends unknown, once the pod was initialized."""
        if self.state.start_time and all(state.succeeded for state in self.state.init_containers.values()):
            for state in self.state.containers.values():
                if state.exit_code is None:
                    state.give_up()

    def _observe_ends(self) -> None:
        for name, state in self.state.containers.items():
            if state.exit_code is not None and name not in self._told_ends:
                self._told_ends.add(name)
                self._observe(self._pod, "after-exit", name)

    async def _cancel_on_stop(self, scope: anyio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    async def _either(self, first: anyio.Event, second: anyio.Event) -> None:
        if first is self._ended and (self.state.outcome() or self._ends != self._ends_told):
            return  # one has ended since the status was last composed
        async with anyio.create_task_group() as race:
            race.start_soon(_cancel_after, first, race.cancel_scope)
            race.start_soon(_cancel_after, second, race.cancel_scope)

    async def _end_containers(self) -> None:
        living = [(name, running) for name, running in self._starter.running.items() if _lives(running)]
        for name, running in living:
            if running.container is not None:
                self._recorder.normal(
                    self._pod, "Killing", f"Stopping container {name}", container=f"spec.containers{{{name}}}"
                )
                if self.traps_term:
                    running.container.kill()
                else:
                    running.container.terminate()
        while any(_lives(running) for _, running in living):
            remaining = max(0.0, (self._kill_at or 0.0) - self._clock.seconds())
            if remaining == 0:
                self.kill()
            ended, grace = self._ended, self._grace_changed
            if not any(_lives(running) for _, running in living):
                break
            async with anyio.create_task_group() as race:
                race.start_soon(_cancel_after, ended, race.cancel_scope)
                race.start_soon(_cancel_after, grace, race.cancel_scope)
                if remaining:
                    await self._clock.sleep(remaining)
                    race.cancel_scope.cancel()

    async def _watch_deadline(self) -> None:
        seconds = self._pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return
        while not self.state.start_time:
            await self._clock.sleep(self._delays.retry())
        await self._clock.sleep(float(seconds))
        if self.state.outcome() or self._stopping.is_set():
            return
        self.state.failing = True
        self._recorder.normal(self._pod, "DeadlineExceeded", _DEADLINE_MESSAGE)
        self._publish()
        self.state.reason, self.state.message = "DeadlineExceeded", _DEADLINE_MESSAGE
        self.stop(float(self._pod["spec"].get("terminationGracePeriodSeconds", 30)))

    async def _watch_volumes(self) -> None:
        """Evict the pod once an emptyDir holds more than its sizeLimit."""
        volumes = self._pod["spec"].get("volumes") or []
        if not any((volume.get("emptyDir") or {}).get("sizeLimit") for volume in volumes):
            return
        while True:
            await self._clock.sleep(self._delays.housekeeping())
            found = await anyio.to_thread.run_sync(over_limit, volumes, dict(self._volumes))
            if found is not None and self._eviction is None:
                name, limit = found
                self.end_by_kubelet("Evicted", f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". ')

    # --- the API -----------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Store the status again, as after a change of the pod that the kubelet has seen."""
        if self.state.start_time and not self.state.final:
            self._publish()

    def cut_off(self) -> None:
        """Its node has fallen silent: who follows a log through it is cut off."""
        for running in self._starter.running.values():
            running.log.cut_off()

    def is_reachable(self) -> bool:
        """Whether its node's kubelet talks to the apiserver."""
        return self.node is None or not self.node.silent

    async def _reachable(self) -> None:
        if self.node is not None:
            await self.node.reachable()

    def _publish(self) -> None:
        self._ends_told = self._ends
        if not self.is_reachable():
            return

        def change(pod: Object) -> None:
            pod["status"] = pod_status.compose(pod, self.state, now_text(self._clock))

        self._change(change)

    def _add_condition(self, reason: str, message: str) -> None:
        def change(pod: Object) -> None:
            pod_status.set_disruption(pod, reason, message, pod["metadata"]["generation"], now_text(self._clock))

        self._change(change)

    def _change(self, change: Callable[[Object], None]) -> None:
        current = self._storage.find(PODS, self.namespace, self.name)
        if current is None or current["metadata"]["uid"] != self.uid:
            return  # deleted with grace 0, and perhaps made again: the kubelet's word is no longer asked for
        try:
            self._pod = self._storage.update(PODS, self.namespace, self.name, change)
        except Refused:
            return

    def _being_deleted(self) -> bool:
        current = self._storage.find(PODS, self.namespace, self.name)
        return (
            current is not None
            and current["metadata"]["uid"] == self.uid
            and "deletionTimestamp" in current["metadata"]
        )

    def _find(self, resource: Resource, name: str) -> Object | None:
        return self._storage.find(resource, self.namespace, name)


def _lives(running: RunningContainer) -> bool:
    return running.container is not None and not running.log.ended


async def _pump(source: ReadEnd, log: ContainerLog, stream: str) -> None:
    try:
        while data := await source.receive(_READ):
            log.write(stream, data)
    finally:
        source.close()
        log.end_stream(stream)


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
