"""A cluster for the end-to-end tests: the embedded one, or the real one that `SENRO_K8S_*` names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from senro.testing import Bench


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cluster=real` runs what a real cluster can run, on the cluster of the environment."""
    parser.addoption("--cluster", choices=("embedded", "real"), default="embedded")


@pytest.fixture(scope="session")
def devcluster_options() -> Mapping[str, Any]:
    """Two namespaces, so that a test can find nothing of a run where it does not belong."""
    return {"namespaces": ("ci", "other")}


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Runs pipelines on the cluster in a folder of the test's own, and tells what they left behind."""
    monkeypatch.chdir(tmp_path)
    if request.config.getoption("--cluster") == "embedded":
        yield request.getfixturevalue("senro_bench")
        return
    needed = ("SENRO_K8S_SERVER", "SENRO_TEST_IMAGE", "SENRO_TEST_NAMESPACE")
    if missing := [name for name in needed if not os.environ.get(name)]:
        pytest.fail(f"set {', '.join(missing)} to run on a real cluster")
    bench = Bench.remote(
        tmp_path, os.environ, image=os.environ["SENRO_TEST_IMAGE"], namespace=os.environ["SENRO_TEST_NAMESPACE"]
    )
    yield bench
    bench.check_nothing_is_left()
