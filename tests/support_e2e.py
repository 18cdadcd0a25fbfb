"""What the end-to-end tests work with: run a pipeline, read what it did, see what it left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import senro
from senro import k8s
from senro.domain.events import Event, PodCreated, PodDeleted, decode_event
from senro.domain.names import label_value

ROOT = Path(__file__).parents[1]


@dataclass
class Bench:
    """One test's folder, and the cluster that its pipelines run on."""

    folder: Path
    environ: dict[str, str]
    image: str
    namespace: str
    cluster: Any = None
    results: list[senro.Result] = field(default_factory=list)

    @classmethod
    def embedded(cls, folder: Path, cluster: Any) -> Bench:
        """On the embedded cluster, whose faults are cleared."""
        cluster.faults.clear()
        environ = {**base_environment(folder), **cluster.environment()}
        return cls(folder, environ, cluster.image, "ci", cluster)

    @property
    def faults(self) -> Any:
        """The embedded cluster's faults; a test that wants them is skipped on a real one."""
        if self.cluster is None:
            pytest.skip("a real cluster fails when it wants to")
        return self.cluster.faults

    def pod(self, **options: Any) -> k8s.Pod:
        """A target on the cluster."""
        return k8s.Pod(self.image, namespace=self.namespace, **options)

    def run(self, pipeline: senro.Pipeline, **options: Any) -> senro.Result:
        """Build and run it."""
        result = senro.run_sync(pipeline.build(), run_dir=str(self.folder / "runs"), environ=self.environ, **options)
        self.results.append(result)
        return result

    def one(self, *command: str, **options: Any) -> senro.Result:
        """Run a pipeline of one step, `w.s`, in a pod."""
        on = options.pop("on", None) or self.pod()
        run_options = options.pop("run", {})
        pipeline = senro.Pipeline("one")
        pipeline.workflow("w", on=on).step("s", command, **options)
        return self.run(pipeline, **run_options)

    def events(self, result: senro.Result | None = None) -> list[Event]:
        """The ledger of a run, the last one by default."""
        lines = Path((result or self.results[-1]).folder, "events.jsonl").read_bytes().splitlines()
        return [decode_event(line) for line in lines]

    def of(self, kind: type[Any], result: senro.Result | None = None) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events(result) if isinstance(event, kind)]

    def log(self, step: str, attempt: int = 1, result: senro.Result | None = None) -> bytes:
        """What a step printed."""
        return Path((result or self.results[-1]).folder, "logs", label_value(step), f"{attempt}.log").read_bytes()

    def tree(self, name: str, result: senro.Result | None = None) -> dict[str, bytes]:
        """The files of a workspace as the run left it."""
        folder = Path((result or self.results[-1]).workspaces[name].folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def starts(self, container: str = "step") -> int:
        """How often containers of this name were started, in the pods of the last run."""
        pods = [event.pod for event in self.of(PodCreated)]
        return sum(int(self.cluster.starts(self.namespace, pod).get(container, 0)) for pod in pods)

    def check_nothing_is_left(self) -> None:
        """No pod and no Secret of any run is in the cluster, and every run saw its pods gone."""
        for result in self.results:
            created = {event.pod for event in self.of(PodCreated, result)}
            gone = {event.pod for event in self.of(PodDeleted, result) if event.confirmed}
            assert created <= gone
        if self.cluster is not None:
            assert [pod["metadata"]["name"] for pod in self.cluster.pods()] == []
            assert [secret["metadata"]["name"] for secret in self.cluster.secrets()] == []

    def cli(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the command line in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "senro", *words],
            cwd=options.pop("cwd", self.folder),
            env={**self.environ, **options.pop("env", {})},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )


class RealBench(Bench):
    """On the cluster of the environment."""

    def __init__(self, folder: Path, environ: Mapping[str, str], image: str, namespace: str) -> None:
        super().__init__(folder, {**base_environment(folder), **environ}, image, namespace)


def base_environment(folder: Path) -> dict[str, str]:
    """What a process of the tests needs of this machine, and a cache of the test's own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "SENRO_CACHE_DIR": str(folder / "cache")}


def real_cluster(environ: Mapping[str, str]) -> tuple[dict[str, str], str, str]:
    """The variables, image and namespace of `make test-cluster`; fails the test where one is missing."""
    missing = [
        name for name in ("SENRO_K8S_SERVER", "SENRO_TEST_IMAGE", "SENRO_TEST_NAMESPACE") if not environ.get(name)
    ]
    if missing:
        pytest.fail(f"set {', '.join(missing)} to run on a real cluster")
    variables = {name: value for name, value in environ.items() if name.startswith("SENRO_K8S_")}
    return variables, environ["SENRO_TEST_IMAGE"], environ["SENRO_TEST_NAMESPACE"]
