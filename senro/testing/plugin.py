"""The pytest plugin: fixtures for an embedded cluster, its faults, and a bench for pipelines.

pytest loads it in every project in which senro is installed, so it imports only pytest before a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from senro.devcluster import DevCluster, Faults
    from senro.testing.bench import Bench


@pytest.fixture(scope="session")
def devcluster_options() -> Mapping[str, Any]:
    """The keyword arguments of `DevCluster` for both cluster fixtures. Override this fixture to set them."""
    return {}


@pytest.fixture(scope="session")
def devcluster(devcluster_options: Mapping[str, Any]) -> Iterator[DevCluster]:
    """An embedded cluster for all tests of the session, or of a worker of pytest-xdist."""
    from senro.devcluster import DevClusterThread  # noqa: PLC0415 - imported on first use

    with DevClusterThread(**devcluster_options) as cluster:
        yield cluster


@pytest.fixture
def fresh_devcluster(devcluster_options: Mapping[str, Any]) -> Iterator[DevCluster]:
    """An embedded cluster for this test alone. It starts in a fraction of a second."""
    from senro.devcluster import DevClusterThread  # noqa: PLC0415 - imported on first use

    with DevClusterThread(**devcluster_options) as cluster:
        yield cluster


@pytest.fixture
def devcluster_faults(devcluster: DevCluster) -> Iterator[Faults]:
    """The faults of the session's cluster, disarmed before and after the test."""
    devcluster.faults.clear()
    yield devcluster.faults
    devcluster.faults.clear()


@pytest.fixture
def senro_bench(devcluster: DevCluster, devcluster_faults: Faults, tmp_path: Path) -> Iterator[Bench]:
    """A bench that runs pipelines on the session's cluster, in the test's `tmp_path`.

    After the test it raises AssertionError if a run left a pod, a Secret or a Lease in the cluster.
    """
    from senro.testing.bench import Bench  # noqa: PLC0415 - imported on first use

    del devcluster_faults
    bench = Bench.embedded(tmp_path, devcluster)
    yield bench
    bench.check_nothing_is_left()
