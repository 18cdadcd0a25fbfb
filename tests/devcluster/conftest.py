"""One cluster for all tests of this folder, bubblewrap where it runs; and one that is mapped whatever runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from senro.devcluster import DevCluster, DevClusterThread
from tests.lib.harness.devcluster import Client

TIME_SCALE = 0.04
"""The clusters' time in relation to a real one's. Less would be near the time that a command takes by itself."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[DevCluster]:
    with DevClusterThread(time_scale=TIME_SCALE) as running:
        yield running


@pytest.fixture(scope="session")
def mapped_cluster() -> Iterator[DevCluster]:
    patch = pytest.MonkeyPatch()
    patch.setenv("SENRO_DEVCLUSTER_MODE", "mapped")
    with DevClusterThread(time_scale=TIME_SCALE) as running:
        patch.undo()
        yield running


@pytest.fixture
def client(cluster: DevCluster, request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.node.get_closest_marker("bubblewrap") is not None and cluster.mode != "bubblewrap":
        pytest.skip(f"bubblewrap cannot run: {cluster.mode_reason}")
    client = Client(cluster)
    yield client
    cluster.faults.clear()
    client.close()


@pytest.fixture
def mapped(mapped_cluster: DevCluster) -> Iterator[Client]:
    client = Client(mapped_cluster)
    yield client
    client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A pod's name that no other test uses."""
    words = request.node.name.lower().replace("test_", "").replace("_", "-")
    return "".join(letter if letter.isalnum() else "-" for letter in words)[:60].strip("-")
