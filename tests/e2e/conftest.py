"""A cluster for the end-to-end tests: the embedded one, or the real one that `SENRO_K8S_*` names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from senro.devcluster import DevClusterThread
from tests.support_e2e import Bench, RealBench, real_cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cluster=real` runs what a real cluster can run, on the cluster of the environment."""
    parser.addoption("--cluster", choices=("embedded", "real"), default="embedded")


@pytest.fixture(scope="session")
def served(request: pytest.FixtureRequest) -> Iterator[object]:
    """The embedded cluster, one for all tests of a worker; None where a real one is used."""
    if request.config.getoption("--cluster") == "real":
        yield None
        return
    with DevClusterThread(namespaces=("ci", "other")) as cluster:
        yield cluster


@pytest.fixture
def bench(served: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Runs pipelines on the cluster in a folder of the test's own, and tells what they left behind."""
    monkeypatch.chdir(tmp_path)
    if served is None:
        yield RealBench(tmp_path, *real_cluster(os.environ))
        return
    bench = Bench.embedded(tmp_path, served)
    yield bench
    bench.check_nothing_is_left()
