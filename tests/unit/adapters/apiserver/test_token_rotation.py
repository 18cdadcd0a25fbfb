from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest
import respx

from senro.adapters.apiserver.configuration import TokenFile
from senro.domain.errors import Unauthorized
from tests.lib.fakes.clock import FakeClock
from tests.lib.harness.apiserver import cluster_under_respx

pytestmark = pytest.mark.anyio

POD = {"kind": "Pod", "metadata": {"namespace": "ci", "name": "a", "uid": "u-1"}}
MANIFEST = {"kind": "Pod", "metadata": {"namespace": "ci", "name": "a"}}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(auto=True)


@pytest.fixture
def route() -> Iterator[respx.Route]:
    with respx.mock:
        yield respx.route()


async def test_401_is_repeated_with_another_token(route: respx.Route, tmp_path: Path) -> None:
    """After a 401 every request, also a create, is sent once more if the file has a new token."""
    path = tmp_path / "token"
    path.write_text("first")
    tokens: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tokens.append(request.headers["Authorization"])
        path.write_text(f"token-{len(tokens)}")
        return httpx.Response(201, json=POD) if tokens[-1] == "Bearer token-1" else httpx.Response(401)

    route.mock(side_effect=answer)
    async with cluster_under_respx(credential=TokenFile(str(path))) as cluster:
        assert (await cluster.create_pod(MANIFEST)).uid == "u-1"
        assert tokens == ["Bearer first", "Bearer token-1"]
        with pytest.raises(Unauthorized):
            await cluster.create_pod(MANIFEST)
        assert len(tokens) == 4


async def test_a_rotation_is_no_error_for_any_of_concurrent_requests(route: respx.Route, tmp_path: Path) -> None:
    """Requests that were sent with the old token are all repeated, whichever of them reads the new one first."""
    path = tmp_path / "token"
    path.write_text("old")
    sent = 0

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal sent
        if request.headers["Authorization"] == "Bearer new":
            return httpx.Response(201, json=POD)
        sent += 1
        while sent < 3:
            await anyio.lowlevel.checkpoint()
        path.write_text("new")
        return httpx.Response(401)

    route.mock(side_effect=answer)
    async with cluster_under_respx(credential=TokenFile(str(path))) as cluster, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(cluster.create_pod, MANIFEST)
    assert route.call_count == 6


async def test_401_with_the_same_token(route: respx.Route, clock: FakeClock) -> None:
    """Without a new token a 401 is raised at once."""
    route.respond(401)
    async with cluster_under_respx(clock=clock) as cluster:
        with pytest.raises(Unauthorized):
            await cluster.read_pod("ci", "a")
    assert route.call_count == 1
