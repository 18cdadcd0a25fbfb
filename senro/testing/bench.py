"""A bench for tests: runs pipelines, and reads their events, logs, files and pods."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import senro
from senro import k8s
from senro.domain.kube.names import MANAGED_LABEL, label_value
from senro.domain.pipeline.targets import Local, Pod
from senro.domain.run.events import Event, PodCreated, PodDeleted, decode_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from senro.devcluster import DevCluster, Faults

_Kind = TypeVar("_Kind")
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
_COMMAND_SECONDS = 120


@dataclass
class Bench:
    """Runs pipelines on a cluster, for one test.

    `folder`: the test's folder.
    `environ`: the whole environment that senro gets: the cluster's address and credentials, a cache in `folder`, and
    those variables of the process that any program needs.
    `image`, `namespace`: what `pod` uses.
    `cluster`: the embedded cluster; None for a real one.
    `results`: the results that `run` returned, in order.
    """

    folder: Path
    environ: dict[str, str]
    image: str
    namespace: str
    cluster: DevCluster | None = None
    results: list[senro.Result] = field(default_factory=list)

    @classmethod
    def embedded(cls, folder: Path, cluster: DevCluster) -> Bench:
        """Returns a bench on an embedded cluster, in the first namespace that the runner's token may use."""
        environ = {**_environment(folder), **cluster.environment()}
        return cls(folder, environ, cluster.image, cluster.access.home, cluster)

    @classmethod
    def remote(cls, folder: Path, environ: Mapping[str, str], *, image: str, namespace: str) -> Bench:
        """Returns a bench on the cluster that `SENRO_K8S_*` in `environ` name. `image` needs sh, tar and mkfifo."""
        variables = {name: value for name, value in environ.items() if name.startswith("SENRO_K8S_")}
        return cls(folder, {**_environment(folder), **variables}, image, namespace)

    @property
    def faults(self) -> Faults:
        """The faults of the embedded cluster. On a real cluster this skips the test."""
        return self.devcluster.faults

    @property
    def devcluster(self) -> DevCluster:
        """The embedded cluster. On a real cluster this skips the test."""
        if self.cluster is None:
            import pytest  # noqa: PLC0415 - a bench can be used without pytest

            pytest.skip("this test needs the embedded cluster, for its faults or its stored states")
        return self.cluster

    # --- running -----------------------------------------------------------------------------------------------

    def pod(self, **options: Any) -> k8s.Pod:
        """Returns a target on the cluster. The options are those of `k8s.Pod`."""
        return k8s.Pod(options.pop("image", self.image), namespace=self.namespace, **options)

    def run(self, pipeline: senro.Pipeline, **options: Any) -> senro.Result:
        """Builds and runs a pipeline, and returns the result, also of a failed run. Options as of `senro.run_sync`."""
        options = {"run_dir": str(self.folder / "runs"), "environ": self.environ, **options}
        result = senro.run_sync(pipeline.build(), **options)
        self.results.append(result)
        return result

    def one(
        self, *command: str, on: Pod | Local | None = None, run: Mapping[str, Any] | None = None, **step: Any
    ) -> Any:
        """Runs a pipeline of one step, `w.s`, in a pod. `step` are the options of the step, `run` those of the run."""
        pipeline = senro.Pipeline("one")
        pipeline.workflow("w", on=on or self.pod()).step("s", command, **step)
        return self.run(pipeline, **(run or {}))

    def cli(
        self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command line as a process, by default in the bench's folder, and captures stdout and stderr."""
        return subprocess.run(
            [sys.executable, "-m", "senro", *words],
            cwd=cwd or self.folder,
            env={**self.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    # --- what a run did; by default the last one ---------------------------------------------------------------

    def events(self, result: senro.Result | None = None) -> list[Event]:
        """Returns all events of the run's ledger, in order."""
        lines = Path(self._run(result).folder, "events.jsonl").read_bytes().splitlines()
        return [decode_event(line) for line in lines]

    def of(self, kind: type[_Kind], result: senro.Result | None = None) -> list[_Kind]:
        """Returns the events of one kind, such as `senro.domain.run.events.PodCreated`."""
        return [event for event in self.events(result) if isinstance(event, kind)]

    def log(self, step: str, attempt: int = 1, result: senro.Result | None = None) -> bytes:
        """Returns the output of an attempt of a step (`workflow.step`)."""
        return Path(self._run(result).folder, "logs", label_value(step), f"{attempt}.log").read_bytes()

    def tree(self, workspace: str, result: senro.Result | None = None) -> dict[str, bytes]:
        """Returns the files of a workspace after the run: content by path."""
        folder = Path(self._run(result).workspaces[workspace].folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def pods(self, result: senro.Result | None = None) -> list[str]:
        """Returns the names of the pods that the run created, in order."""
        return [event.pod for event in self.of(PodCreated, result)]

    def starts(self, container: str = "step", result: senro.Result | None = None) -> int:
        """Returns how often the embedded cluster started containers of this name for the run."""
        cluster = self.devcluster
        return sum(cluster.starts(self.namespace, pod).get(container, 0) for pod in self.pods(result))

    def states(self, pod: str) -> list[dict[str, Any]]:
        """Returns every stored state of a pod, in order, including those that no client read."""
        return self.devcluster.states(self.namespace, pod)

    def check_nothing_is_left(self) -> None:
        """Raises AssertionError if a run did not confirm a pod's deletion, or left a pod, a Secret or a Lease."""
        for result in self.results:
            created = set(self.pods(result))
            gone = {event.pod for event in self.of(PodDeleted, result) if event.confirmed}
            _require("not confirmed as deleted", sorted(created - gone))
        if self.cluster is not None:
            _require(*_created_by_senro("pods", self.cluster.pods()))
            _require(*_created_by_senro("Secrets", self.cluster.secrets()))
            _require(*_created_by_senro("Leases", self.cluster.leases()))

    def _run(self, result: senro.Result | None) -> senro.Result:
        if result is None and not self.results:
            raise LookupError("no pipeline has been run on this bench")
        return result or self.results[-1]


def _created_by_senro(kind: str, documents: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """Returns a heading, and the names of the objects of `kind` that senro created; those of the test do not count."""
    ours = [item["metadata"] for item in documents if (item["metadata"].get("labels") or {}).get(MANAGED_LABEL)]
    return f"{kind} left in the cluster", [f"{meta['namespace']}/{meta['name']}" for meta in ours]


def _require(problem: str, names: list[str]) -> None:
    if names:
        raise AssertionError(f"{problem}: {', '.join(names)}")


def _environment(folder: Path) -> dict[str, str]:
    """Returns the variables that any process needs, and a cache in `folder`."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**kept, "SENRO_CACHE_DIR": str(folder / "cache")}
