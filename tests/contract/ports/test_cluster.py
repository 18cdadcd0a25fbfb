from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from senro.adapters.apiserver import connect, read_configuration, watch_pod
from senro.adapters.clock import SystemClock, SystemRandomness
from senro.devcluster import DevCluster
from tests.contract.ports.cluster_suite import ClusterSuite, Site

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def site_of(env: Mapping[str, str], namespace: str, image: str) -> AsyncIterator[Site]:
    """The adapter, connected by the variables of `env`."""
    clock = SystemClock()
    async with connect(read_configuration(env, now=clock.now()), clock=clock, randomness=SystemRandomness()) as cluster:
        yield Site(
            cluster=cluster,
            namespace=namespace,
            image=image,
            unique=unique_name,
            watch=lambda pod: watch_pod(cluster, pod.namespace, pod.name, uid=pod.uid, clock=clock),
        )


def unique_name() -> str:
    return f"suite-{uuid.uuid4().hex[:12]}"


REAL = ("SENRO_K8S_SERVER", "SENRO_TEST_IMAGE", "SENRO_TEST_NAMESPACE")
"""If all of these are set, the suite runs against a real cluster too."""


@pytest.mark.slow
class TestApiserver(ClusterSuite):
    @pytest.fixture(params=["devcluster", *(["cluster"] if all(name in os.environ for name in REAL) else [])])
    async def site(self, request: pytest.FixtureRequest) -> AsyncIterator[Site]:
        if request.param == "cluster":
            namespace, image = os.environ["SENRO_TEST_NAMESPACE"], os.environ["SENRO_TEST_IMAGE"]
            async with site_of(os.environ, namespace, image) as site:
                yield site
        else:
            async with DevCluster(time_scale=0.05) as dev, site_of(dev.environment(), "ci", dev.image) as site:
                yield site
