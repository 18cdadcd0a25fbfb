"""What becomes of one pod, from the scheduler to its removal: the status sequences of the recordings."""

from __future__ import annotations

import os
import shutil
import uuid
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from senro.devcluster.apiserver.status import PODS, SECRETS, Refused
from senro.devcluster.clock import now_text
from senro.devcluster.containers.bubblewrap import DEFAULT_CAPABILITIES
from senro.devcluster.containers.log import ContainerLog
from senro.devcluster.containers.pipes import output_pipe
from senro.devcluster.containers.runtime import ContainerConfig, StartError
from senro.devcluster.expansion import expand
from senro.devcluster.kubelet import status as pod_status
from senro.devcluster.kubelet.environment import ConfigError, environment
from senro.devcluster.kubelet.status import PodState
from senro.devcluster.kubelet.volumes import NotYetError, mounts, set_up
from senro.devcluster.objects import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.pipes import ReadEnd
    from senro.devcluster.containers.runtime import Container, Runtime
    from senro.devcluster.kubelet.delays import Delays
    from senro.devcluster.kubelet.status import ContainerState
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_READ = 65_536
_START_ERROR = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)
_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class RunningContainer:
    """A container with its log; it stays after its end, for the log's sake."""

    def __init__(self, log: ContainerLog) -> None:
        self.log = log
        self.container: Container | None = None


class PodWorker:
    """The life of one pod. `run` is its only task; `stop` may be called at any time from the same event loop."""

    def __init__(
        self,
        pod: Object,
        *,
        folder: Path,
        storage: Storage,
        runtime: Runtime,
        clock: Clock,
        delays: Delays,
        address: str,
        observe: Callable[[Object, str, str], None],
    ) -> None:
        self.uid = str(pod["metadata"]["uid"])
        self.namespace = str(pod["metadata"]["namespace"])
        self.name = str(pod["metadata"]["name"])
        self.started: dict[str, int] = {}
        """How many times each container's command was started."""
        self._pod = pod
        self._folder = folder
        self._storage = storage
        self._runtime = runtime
        self._clock = clock
        self._delays = delays
        self._address = address
        self._observe = observe
        initial = pod["spec"].get("initContainers") or []
        reason = "PodInitializing" if initial else "ContainerCreating"
        self.state = PodState(
            start_time="",
            containers=pod_status.waiting_states(pod["spec"]["containers"], reason),
            init_containers=pod_status.waiting_states(initial, reason),
        )
        self._running: dict[str, RunningContainer] = {}
        self._stopping = anyio.Event()
        self._bring_up_scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._kill_at: float | None = None
        self._killed = False
        self._grace_changed = anyio.Event()

    def log_of(self, container: str) -> ContainerLog | None:
        """The log of a container that was started, else None."""
        running = self._running.get(container)
        return running.log if running is not None else None

    def container(self, name: str) -> Container | None:
        """The container, if its process runs."""
        running = self._running.get(name)
        if self._killed or running is None or running.container is None:
            return None
        if running.container.process.exit_code is not None:
            return None
        return running.container

    def state_of(self, container: str) -> ContainerState | None:
        """The kubelet's own knowledge of a container, ahead of what it has published."""
        return self.state.containers.get(container) or self.state.init_containers.get(container)

    def stop(self, grace_seconds: float) -> None:
        """End the containers: SIGTERM now, SIGKILL after the grace. A second call can only shorten it."""
        end = anyio.current_time() + max(grace_seconds, self._delays.least_grace())
        if self._kill_at is None or end < self._kill_at:
            self._kill_at = end
            happened, self._grace_changed = self._grace_changed, anyio.Event()
            happened.set()
        self._stopping.set()
        self._bring_up_scope.cancel()

    def kill(self) -> None:
        """SIGKILL to every container at once; none of them can be entered from now on."""
        self._killed = True
        for running in self._running.values():
            if running.container is not None:
                running.container.kill()

    async def run(self) -> None:
        """Live the pod's whole life; returns when nothing of it runs any more."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch_deadline)
                with self._bring_up_scope:
                    await self._bring_up(tasks)
                await self._until_ended(tasks)
                tasks.cancel_scope.cancel()
        finally:
            self.kill()

    async def forget(self) -> None:
        """Give back the logs and the folder; the pod is gone from the API."""
        for running in self._running.values():
            running.log.close()
        await anyio.to_thread.run_sync(_remove_tree, self._folder)

    # --- bringing up -------------------------------------------------------------------------------------------

    async def _bring_up(self, tasks: anyio.abc.TaskGroup) -> None:
        await self._clock.sleep(self._delays.schedule())
        if not self._schedule():
            await anyio.sleep_forever()
        await self._clock.sleep(self._delays.admit())
        self.state.start_time = now_text(self._clock)
        self._publish()
        volumes = await self._volumes()
        await self._clock.sleep(self._delays.sandbox(volumes=bool(volumes)))
        self.state.sandbox_ready = True
        self._publish()
        self.state.address = self._address
        for container in self._pod["spec"].get("initContainers") or []:
            if not await self._run_init_container(container, volumes, tasks):
                return
        await self._clock.sleep(self._delays.start())
        for container in self._pod["spec"]["containers"]:
            await self._start(container, self.state.containers[container["name"]], volumes, tasks)
        self._publish()
        for name, state in self.state.containers.items():
            # One that has ended already did run: a disruption that comes now is seen together with its end.
            if state.started_at:
                self._observe(self._pod, "running", name)

    def _schedule(self) -> bool:
        claims = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in self._pod["spec"].get("volumes") or []
            if "persistentVolumeClaim" in volume
        ]
        selector = self._pod["spec"].get("nodeSelector") or {}
        foreign = {
            key: value for key, value in selector.items() if key not in {"kubernetes.io/os", "kubernetes.io/arch"}
        }
        why = ""
        if claims:
            why = f'0/1 nodes are available: persistentvolumeclaim "{claims[0]}" not found. not found'
        elif foreign:
            why = (
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to "
                "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
            )

        def change(pod: Object) -> None:
            generation, now = pod["metadata"]["generation"], now_text(self._clock)
            if why:
                pod["status"]["conditions"] = [pod_status.unschedulable(generation, now, why)]
            else:
                pod["spec"]["nodeName"] = NODE_NAME
                pod["status"]["conditions"] = [pod_status.scheduled(generation, now)]

        self._change(change)
        return not why

    async def _volumes(self) -> dict[str, Path]:
        while True:
            try:
                return set_up(self._folder / "volumes", self._pod["spec"].get("volumes") or [], self._find_secret)
            except NotYetError:
                await self._clock.sleep(self._delays.retry())

    async def _run_init_container(
        self, container: Object, volumes: dict[str, Path], tasks: anyio.abc.TaskGroup
    ) -> bool:
        await self._clock.sleep(self._delays.start())
        state = self.state.init_containers[container["name"]]
        await self._start(container, state, volumes, tasks)
        running = self._running.get(container["name"])
        if running is not None and running.container is not None:
            self._publish()
            self._observe(self._pod, "staging", container["name"])
            await running.container.process.wait()
        await self._clock.sleep(self._delays.relist())
        if state.succeeded:
            self._publish()
        return state.succeeded

    async def _start(
        self, container: Object, state: ContainerState, volumes: dict[str, Path], tasks: anyio.abc.TaskGroup
    ) -> None:
        name = container["name"]
        config = await self._configure(container, state, volumes)
        identifier = f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}"
        log = ContainerLog(_log_path(config.folder), self._clock)
        running = self._running[name] = RunningContainer(log)
        out, their_out = output_pipe()
        err, their_err = output_pipe()
        try:
            running.container = await self._runtime.start(config, stdout=their_out, stderr=their_err)
        except StartError as error:
            state.container_id = identifier
            state.exit_code, state.reason, state.message = 128, "StartError", _START_ERROR + str(error)
            state.finished_at = now_text(self._clock)
            out.close()
            err.close()
            log.end()
            return
        except BaseException:
            out.close()
            err.close()
            log.end()
            raise
        finally:
            _close(their_out, their_err)
        self.started[name] = self.started.get(name, 0) + 1
        state.container_id = identifier
        state.started_at = now_text(self._clock)
        tasks.start_soon(self._attend, running, state, out, err)

    async def _environment(self, container: Object, state: ContainerState, hostname: str, user: int) -> dict[str, str]:
        while True:
            try:
                return environment(container, hostname, user, self._find_secret, self._field)
            except ConfigError as error:
                state.waiting, state.waiting_message = "CreateContainerConfigError", str(error)
                self._publish()
                await self._clock.sleep(self._delays.retry())

    async def _configure(self, container: Object, state: ContainerState, volumes: dict[str, Path]) -> ContainerConfig:
        spec = self._pod["spec"]
        context = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
        user = context.get("runAsUser")
        hostname = (spec.get("hostname") or self.name)[:63].rstrip("-.")
        env = await self._environment(container, state, hostname, int(user or 0))
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        capabilities = context.get("capabilities") or {}
        granted = frozenset() if "ALL" in (capabilities.get("drop") or []) else DEFAULT_CAPABILITIES
        granted = (granted - set(capabilities.get("drop") or [])) | set(capabilities.get("add") or [])
        folder = self._folder / "containers" / container["name"]
        folder.mkdir(parents=True, exist_ok=True)
        return ContainerConfig(
            name=container["name"],
            folder=folder,
            argv=tuple(expand(word, env) for word in words) or ("sh",),
            env=env,
            workdir=container.get("workingDir") or "/",
            hostname=hostname,
            mounts=mounts(container, volumes, lambda text: expand(text, env)),
            user=user,
            group=context.get("runAsGroup"),
            read_only_root=bool(context.get("readOnlyRootFilesystem")),
            capabilities=granted,
        )

    async def _attend(self, running: RunningContainer, state: ContainerState, out: ReadEnd, err: ReadEnd) -> None:
        """Pump a container's output into its log, and take down its end."""
        if running.container is None:
            return
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(_pump, out, running.log, "stdout")
            pumps.start_soon(_pump, err, running.log, "stderr")
            try:
                code = await running.container.process.reap()
            finally:
                running.container.release()
        running.log.end()
        state.exit_code = code
        state.reason = "Completed" if code == 0 else "Error"
        state.finished_at = now_text(self._clock)
        happened, self._ended = self._ended, anyio.Event()
        happened.set()

    # --- ending ------------------------------------------------------------------------------------------------

    async def _until_ended(self, tasks: anyio.abc.TaskGroup) -> None:
        """Publish ends as the kubelet notices them, until the pod is over or has to stop."""
        while not self._stopping.is_set() and not self.state.outcome():
            await self._next_end_or_stop()
            if not self._stopping.is_set():
                await self._clock.sleep(self._delays.relist())
                if not self._stopping.is_set():
                    self._publish()
        if not self._stopping.is_set():
            # An init container that failed, or a container that never started, has not been told of yet.
            self._publish()
            with anyio.move_on_after(None) as waiting:
                tasks.start_soon(self._cancel_on_stop, waiting)
                await self._clock.sleep(self._delays.phase())
        else:
            await self._end_containers()
        self.state.final = True
        self.state.sandbox_ready = False
        self._publish()
        if self._being_deleted():
            await self._clock.sleep(self._delays.removal())
            self._storage.remove(PODS, self.namespace, self.name, uid=self.uid)

    async def _cancel_on_stop(self, scope: anyio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    async def _next_end_or_stop(self) -> None:
        ended = self._ended
        if self._all_ended_but_untold():
            return
        async with anyio.create_task_group() as race:
            race.start_soon(_cancel_after, ended, race.cancel_scope)
            race.start_soon(_cancel_after, self._stopping, race.cancel_scope)

    def _all_ended_but_untold(self) -> bool:
        return bool(self.state.outcome())

    async def _end_containers(self) -> None:
        living = [running for running in self._running.values() if self._lives(running)]
        for running in living:
            if running.container is not None:
                running.container.terminate()
        while any(self._lives(running) for running in living):
            remaining = max(0.0, (self._kill_at or 0.0) - anyio.current_time())
            if remaining == 0:
                self.kill()
            ended, grace = self._ended, self._grace_changed
            if not any(self._lives(running) for running in living):
                break
            with anyio.move_on_after(remaining or None):
                async with anyio.create_task_group() as race:
                    race.start_soon(_cancel_after, ended, race.cancel_scope)
                    race.start_soon(_cancel_after, grace, race.cancel_scope)

    def _lives(self, running: RunningContainer) -> bool:
        return running.container is not None and not running.log.ended

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
        self._publish()
        self.state.reason, self.state.message = "DeadlineExceeded", _DEADLINE_MESSAGE
        self.stop(float(self._pod["spec"].get("terminationGracePeriodSeconds", 30)))

    # --- the API -----------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Store the status again, as after a change of the pod that the kubelet has seen."""
        if self.state.start_time and not self.state.final:
            self._publish()

    def _publish(self) -> None:
        def change(pod: Object) -> None:
            pod["status"] = pod_status.compose(pod, self.state, now_text(self._clock))

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

    def _find_secret(self, name: str) -> Object | None:
        return self._storage.find(SECRETS, self.namespace, name)

    def _field(self, path: str) -> str:
        return pod_status.environment_field(self._pod, path, self.state)


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


def _log_path(folder: Path) -> Path:
    return folder / "0.log"


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
