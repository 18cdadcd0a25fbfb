"""A bench for pipelines: run one, read what it did, see what it left."""

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
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
_COMMAND_SECONDS = 120


@dataclass
class Bench:
    """One test's folder, and the cluster that its pipelines run on.

    `environ` is the whole environment that senro sees: the cluster's address and credentials, a cache under `folder`,
    and of this process's environment only what any program needs. `cluster` is None where it is no embedded one.
    """

    folder: Path
    environ: dict[str, str]
    image: str
    namespace: str
    cluster: DevCluster | None = None
    results: list[senro.Result] = field(default_factory=list)
    """What `run` gave, in order."""

    @classmethod
    def embedded(cls, folder: Path, cluster: DevCluster) -> Bench:
        """On an embedded cluster, in the first of its namespaces that the runner's token may use."""
        environ = {**_environment(folder), **cluster.environment()}
        return cls(folder, environ, cluster.image, cluster.access.home, cluster)

    @classmethod
    def remote(cls, folder: Path, environ: Mapping[str, str], *, image: str, namespace: str) -> Bench:
        """On the cluster that `SENRO_K8S_*` in `environ` name, with an image that has sh and tar."""
        variables = {name: value for name, value in environ.items() if name.startswith("SENRO_K8S_")}
        return cls(folder, {**_environment(folder), **variables}, image, namespace)

    @property
    def faults(self) -> Faults:
        """The embedded cluster's faults; a test that wants them is skipped on a real one."""
        return self._embedded().faults

    # --- running -----------------------------------------------------------------------------------------------

    def pod(self, **options: Any) -> k8s.Pod:
        """A target on the cluster; the options are those of `k8s.Pod`."""
        return k8s.Pod(options.pop("image", self.image), namespace=self.namespace, **options)

    def run(self, pipeline: senro.Pipeline, **options: Any) -> senro.Result:
        """Build and run a pipeline; the options are those of `senro.run_sync`. A run that failed is a result too."""
        options = {"run_dir": str(self.folder / "runs"), "environ": self.environ, **options}
        result = senro.run_sync(pipeline.build(), **options)
        self.results.append(result)
        return result

    def one(
        self, *command: str, on: Pod | Local | None = None, run: Mapping[str, Any] | None = None, **step: Any
    ) -> Any:
        """Run a pipeline of one step, `w.s`, in a pod: `step` are the step's options, `run` those of the run."""
        pipeline = senro.Pipeline("one")
        pipeline.workflow("w", on=on or self.pod()).step("s", command, **step)
        return self.run(pipeline, **(run or {}))

    def cli(
        self, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line in a process of its own, in the bench's folder; its output is kept apart, as text."""
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

    # --- reading what a run did: the last one where none is given ----------------------------------------------

    def events(self, result: senro.Result | None = None) -> list[Event]:
        """The run's ledger: every event, in order."""
        lines = Path(self._run(result).folder, "events.jsonl").read_bytes().splitlines()
        return [decode_event(line) for line in lines]

    def of(self, kind: type[_Kind], result: senro.Result | None = None) -> list[_Kind]:
        """The events of one kind, such as `senro.domain.run.events.PodCreated`."""
        return [event for event in self.events(result) if isinstance(event, kind)]

    def log(self, step: str, attempt: int = 1, result: senro.Result | None = None) -> bytes:
        """What an attempt of a step (`workflow.step`) printed."""
        return Path(self._run(result).folder, "logs", label_value(step), f"{attempt}.log").read_bytes()

    def tree(self, workspace: str, result: senro.Result | None = None) -> dict[str, bytes]:
        """The files of a workspace as the run left it: content by path."""
        folder = Path(self._run(result).workspaces[workspace].folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def pods(self, result: senro.Result | None = None) -> list[str]:
        """The names of the pods that a run created, in order."""
        return [event.pod for event in self.of(PodCreated, result)]

    def starts(self, container: str = "step", result: senro.Result | None = None) -> int:
        """How often containers of this name were really started for a run, whatever it was told of them."""
        cluster = self._embedded()
        return sum(cluster.starts(self.namespace, pod).get(container, 0) for pod in self.pods(result))

    def states(self, pod: str) -> list[dict[str, Any]]:
        """Every state that a pod was stored in, in order, the ones too that no client saw."""
        return self._embedded().states(self.namespace, pod)

    def check_nothing_is_left(self) -> None:
        """Raise AssertionError where a run did not see its pods gone, or left a pod, a Secret or a Lease there."""
        for result in self.results:
            created = set(self.pods(result))
            gone = {event.pod for event in self.of(PodDeleted, result) if event.confirmed}
            _require("not confirmed as deleted", sorted(created - gone))
        if self.cluster is not None:
            _require(*_left("pods", self.cluster.pods()))
            _require(*_left("Secrets", self.cluster.secrets()))
            _require(*_left("Leases", self.cluster.leases()))

    def _run(self, result: senro.Result | None) -> senro.Result:
        if result is None and not self.results:
            raise LookupError("no pipeline has been run on this bench")
        return result or self.results[-1]

    def _embedded(self) -> DevCluster:
        if self.cluster is None:
            import pytest  # noqa: PLC0415 - a bench is of use without pytest, until it has to skip a test

            pytest.skip("this needs the embedded cluster: a real one fails when it wants to")
        return self.cluster


def _left(kind: str, documents: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """What senro made and did not remove; what the test itself made is its own affair."""
    ours = [item["metadata"] for item in documents if (item["metadata"].get("labels") or {}).get(MANAGED_LABEL)]
    return f"{kind} left in the cluster", [f"{meta['namespace']}/{meta['name']}" for meta in ours]


def _require(problem: str, names: list[str]) -> None:
    if names:
        raise AssertionError(f"{problem}: {', '.join(names)}")


def _environment(folder: Path) -> dict[str, str]:
    """What any process needs of this machine, and a cache of the test's own."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "SENRO_CACHE_DIR": str(folder / "cache")}
