"""The pytest plugin: an embedded cluster for a session or for one test, its faults, and a bench for pipelines.

pytest loads it in every project where senro is installed: it imports nothing but pytest until one of its fixtures is
used.
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
    """The keyword arguments of `DevCluster` for both fixtures; override it in a conftest.py to set others."""
    return {}


@pytest.fixture(scope="session")
def devcluster(devcluster_options: Mapping[str, Any]) -> Iterator[DevCluster]:
    """One embedded cluster for all tests of the session, and of each worker of pytest-xdist."""
    from senro.devcluster import DevClusterThread  # noqa: PLC0415 - only in projects that use the fixture

    with DevClusterThread(**devcluster_options) as cluster:
        yield cluster


@pytest.fixture
def fresh_devcluster(devcluster_options: Mapping[str, Any]) -> Iterator[DevCluster]:
    """An embedded cluster of this test's own; it takes a fraction of a second to start."""
    from senro.devcluster import DevClusterThread  # noqa: PLC0415 - only in projects that use the fixture

    with DevClusterThread(**devcluster_options) as cluster:
        yield cluster


@pytest.fixture
def devcluster_faults(devcluster: DevCluster) -> Iterator[Faults]:
    """The faults of the session's cluster: none is armed before the test, none is left behind it."""
    devcluster.faults.clear()
    yield devcluster.faults
    devcluster.faults.clear()


@pytest.fixture
def senro_bench(devcluster: DevCluster, devcluster_faults: Faults, tmp_path: Path) -> Iterator[Bench]:
    """Runs pipelines on the session's cluster from a folder of this test's own.

    After a test that passed so far, a pod or a Secret that a run left in the cluster is an error.
    """
    from senro.testing.bench import Bench  # noqa: PLC0415 - only in projects that use the fixture

    del devcluster_faults
    bench = Bench.embedded(tmp_path, devcluster)
    yield bench
    bench.check_nothing_is_left()
