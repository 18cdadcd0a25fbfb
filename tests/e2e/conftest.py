"""The cluster of the end-to-end tests: the embedded one, or the real one that `SENRO_K8S_*` name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from senro.devcluster import DevCluster
from senro.devcluster.random_faults import random_troubles
from senro.testing import Bench

OF_THEIR_OWN = frozenset({"test_disruptions.py", "test_logs.py", "test_matrix.py"})
"""Files whose tests arm faults of their own, or depend on states that a pod shows only for a moment."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cluster=real` runs the tests on the cluster that the environment names, as far as it can run them."""
    parser.addoption("--cluster", choices=("embedded", "real"), default="embedded")


@pytest.fixture(scope="session")
def devcluster_options() -> Mapping[str, Any]:
    """Two namespaces, so that a test can check that a run leaves the other one alone."""
    return {"namespaces": ("ci", "other"), "time_scale": 0.02}


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench in the test's folder, which checks after the test that nothing is left in the cluster."""
    monkeypatch.chdir(tmp_path)
    if request.config.getoption("--cluster") == "embedded":
        cluster: DevCluster = request.getfixturevalue("devcluster")
        if request.node.get_closest_marker("bubblewrap") is not None and cluster.mode != "bubblewrap":
            pytest.skip(f"bubblewrap cannot run: {cluster.mode_reason}")
        bench: Bench = request.getfixturevalue("senro_bench")
        seed = os.environ.get("SENRO_TROUBLE_SEED")
        if seed and request.path.name not in OF_THEIR_OWN:
            # `make soak` repeats the suite with faults that must not change a result (tests/soak/test_suite.py).
            for name, arguments in random_troubles(f"{seed} {request.node.nodeid}"):
                getattr(bench.faults, name)(**arguments)
        yield bench
        return
    needed = ("SENRO_K8S_SERVER", "SENRO_TEST_IMAGE", "SENRO_TEST_NAMESPACE")
    if missing := [name for name in needed if not os.environ.get(name)]:
        pytest.fail(f"set {', '.join(missing)} to run on a real cluster")
    bench = Bench.remote(
        tmp_path, os.environ, image=os.environ["SENRO_TEST_IMAGE"], namespace=os.environ["SENRO_TEST_NAMESPACE"]
    )
    yield bench
    bench.check_nothing_is_left()
