"""From a container's spec to its process: the image, the configuration, the start; and what each may fail with."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import anyio

from senro.devcluster.clock import now_text
from senro.devcluster.containers.bubblewrap import DEFAULT_CAPABILITIES
from senro.devcluster.containers.log import ContainerLog
from senro.devcluster.containers.pipes import output_pipe
from senro.devcluster.containers.runtime import ContainerConfig, StartError, system_words
from senro.devcluster.expansion import expand
from senro.devcluster.images import invalid_name, pull_error
from senro.devcluster.kubelet.environment import ConfigError, environment
from senro.devcluster.kubelet.pod_resources import whole_number
from senro.devcluster.kubelet.volumes import mounts, read_only_volumes

if TYPE_CHECKING:
    from pathlib import Path

    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.pipes import ReadEnd
    from senro.devcluster.containers.runtime import Container, Runtime
    from senro.devcluster.images import Images
    from senro.devcluster.kubelet.environment import Find
    from senro.devcluster.kubelet.events import Recorder
    from senro.devcluster.kubelet.status import ContainerState
    from senro.devcluster.objects import Object

_START_ERROR = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)
_RUNTIME, _PODS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io", "/var/lib/kubelet/pods"
BACK_OFF = "ImagePullBackOff"


class NotStartedError(Exception):
    """A container that has to wait: the reason and message of its state. `pull` where a later pull may succeed."""

    def __init__(self, reason: str, message: str, *, pull: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.pull = pull


class RunningContainer:
    """A container with its log; it stays after its end, for the log's sake."""

    def __init__(self, log: ContainerLog, memory_limit: int | None) -> None:
        self.log = log
        self.memory_limit = memory_limit
        self.container: Container | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Our ends of a started container's output."""

    stdout: ReadEnd
    stderr: ReadEnd


class Starter:
    """Starts the containers of one pod."""

    def __init__(
        self,
        *,
        folder: Path,
        runtime: Runtime,
        clock: Clock,
        recorder: Recorder,
        images: Images,
        log_limit: int,
        find: Find,
    ) -> None:
        self._folder = folder
        self._runtime = runtime
        self._clock = clock
        self._recorder = recorder
        self._images = images
        self._log_limit = log_limit
        self._find = find
        self.running: dict[str, RunningContainer] = {}
        """The last that was started of each name."""
        self._logs: dict[str, list[ContainerLog]] = {}

    def close(self) -> None:
        """Give back the logs, of earlier runs too; they have no readers any more."""
        for log in chain.from_iterable(self._logs.values()):
            log.close()

    async def start(self, pod: Object, container: Object, state: ContainerState, volumes: dict[str, Path]) -> Outputs:
        """Start a container and take it down in its state; `NotStartedError` where it has to wait.

        Where the runtime could not start it, the state has ended with StartError and the outputs are empty.
        """
        name, where = container["name"], f"spec.containers{{{container['name']}}}"
        await self._pull(pod, container, where)
        config = self._configure(pod, container, volumes, where)
        state.container_id = f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}"
        # A container that runs again has a log of its own (docs/design/api-rules.md#end-of-a-followed-log).
        logs = self._logs.setdefault(name, [])
        log = ContainerLog(config.folder / f"{len(logs)}.log", self._clock, limit=self._log_limit)
        logs.append(log)
        log.container_id = state.container_id
        running = self.running[name] = RunningContainer(log, config.memory_limit)
        self._recorder.normal(pod, "Created", "Container created", container=where)
        out, their_out = output_pipe()
        err, their_err = output_pipe()
        try:
            wrong = self._images.find(container["image"]).start_error
            if wrong:
                raise StartError(f'exec: "{config.argv[0]}": {wrong}')  # noqa: TRY301 - the runtime's own would come so
            running.container = await self._start(config, their_out, their_err)
        except StartError as error:
            state.exit_code, state.reason = 128, "StartError"
            state.message = _START_ERROR + self._as_a_node_says(str(error), pod, config.folder, state.container_id)
            state.finished_at = now_text(self._clock)
            self._recorder.warning(pod, "Failed", f"Error: {state.message}", container=where)
            log.end()
        except BaseException:
            out.close()
            err.close()
            log.end()
            raise
        else:
            state.started_at = now_text(self._clock)
            self._recorder.normal(pod, "Started", "Container started", container=where)
        finally:
            os.close(their_out)
            os.close(their_err)
        return Outputs(out, err)

    async def _start(self, config: ContainerConfig, stdout: int, stderr: int) -> Container:
        try:
            return await self._runtime.start(config, stdout=stdout, stderr=stderr)
        # A path that is too long, a NUL in one: what the API takes, and no kernel does.
        except (OSError, ValueError) as error:
            raise StartError(f"error during container init: {system_words(error)}") from error

    def _as_a_node_says(self, words: str, pod: Object, folder: Path, container_id: str) -> str:
        """The runtime's words with the paths of a node in the place of this machine's folders."""
        root = f"{_RUNTIME}/{container_id.removeprefix('containerd://')}/rootfs"
        words = words.replace(str(folder / "root"), root)
        return words.replace(str(self._folder), f"{_PODS}/{pod['metadata']['uid']}")

    async def _pull(self, pod: Object, container: Object, where: str) -> None:
        name, policy = container["image"], container.get("imagePullPolicy") or "IfNotPresent"
        if why := invalid_name(name):
            self._recorder.warning(pod, "InspectFailed", why, container=where)
            self._recorder.warning(pod, "Failed", "Error: InvalidImageName", container=where)
            raise NotStartedError("InvalidImageName", why)
        image = self._images.find(name)
        present = image.on_node or name in self._images.pulled
        if policy == "Never" and not present:
            why = f'Container image "{name}" is not present with pull policy of Never'
            self._recorder.warning(pod, "ErrImageNeverPull", why, container=where)
            self._recorder.warning(pod, "Failed", "Error: ErrImageNeverPull", container=where)
            raise NotStartedError("ErrImageNeverPull", why)
        if present and policy != "Always":
            there = f'Container image "{name}" already present on machine and can be accessed by the pod'
            self._recorder.normal(pod, "Pulled", there, container=where)
            return
        self._recorder.normal(pod, "Pulling", f'Pulling image "{name}"', container=where)
        if image.silent:
            await anyio.sleep_forever()
        if why := pull_error(image, name):
            self._recorder.warning(pod, "Failed", f'Failed to pull image "{name}": {why}', container=where)
            self._recorder.warning(pod, "Failed", "Error: ErrImagePull", container=where)
            raise NotStartedError("ErrImagePull", why, pull=True)
        self._images.pulled.add(name)
        took = f'Successfully pulled image "{name}" in 1ms (1ms including waiting). Image size: 0 bytes.'
        self._recorder.normal(pod, "Pulled", took, container=where)

    def back_off(self, pod: Object, container: Object, state: ContainerState) -> None:
        """The pull has failed, and the next one is not due: ErrImagePull becomes ImagePullBackOff."""
        name, where = container["image"], f"spec.containers{{{container['name']}}}"
        back_off = f'Back-off pulling image "{name}"'
        state.waiting, state.waiting_message = BACK_OFF, f"{back_off}: ErrImagePull: {state.waiting_message}"
        self._recorder.normal(pod, "BackOff", back_off, container=where)
        self._recorder.warning(pod, "Failed", f"Error: {BACK_OFF}", container=where)

    def _configure(self, pod: Object, container: Object, volumes: dict[str, Path], where: str) -> ContainerConfig:
        spec, image = pod["spec"], self._images.find(container["image"])
        context = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
        user = context.get("runAsUser")
        if user is None:
            user = image.user
        hostname = (spec.get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")
        try:
            if context.get("runAsNonRoot") and not user:
                raise ConfigError(  # noqa: TRY301 - one way out for all that is wrong with a configuration
                    f'container has runAsNonRoot and image will run as root (pod: "{pod["metadata"]["name"]}_'
                    f'{pod["metadata"]["namespace"]}({pod["metadata"]["uid"]})", container: {container["name"]})'
                )
            env = environment(container, hostname, int(user or 0), self._find)
            mounted = mounts(container, volumes, read_only_volumes(spec))
        except ConfigError as error:
            self._recorder.warning(pod, "Failed", f"Error: {error}", container=where)
            raise NotStartedError("CreateContainerConfigError", str(error)) from error
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
            mounts=mounted,
            user=user,
            group=context.get("runAsGroup"),
            read_only_root=bool(context.get("readOnlyRootFilesystem")) or image.read_only_root,
            capabilities=granted,
            memory_limit=whole_number(((container.get("resources") or {}).get("limits") or {}).get("memory")),
            absent_tools=image.absent_tools,
            programs=image.programs,
        )
