from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import respx

from senro.domain.errors import Unavailable
from tests.lib.harness.apiserver import cluster_under_respx

pytestmark = pytest.mark.anyio


@pytest.fixture
def route() -> Iterator[respx.Route]:
    with respx.mock:
        yield respx.route()


NO_PROOF = [
    httpx.Response(404),
    httpx.Response(404, text="404 page not found"),
    httpx.Response(404, html="<html><title>404 Not Found</title></html>"),
    httpx.Response(404, json={"kind": "Status", "reason": "", "message": "?", "details": {"name": "a"}}),
    httpx.Response(404, json={"kind": "Status", "reason": "NotFound", "message": "no such namespace"}),
    httpx.Response(404, json={"kind": "Status", "reason": "NotFound", "details": {"name": "other", "kind": "pods"}}),
]


@pytest.mark.parametrize("answer", NO_PROOF, ids=lambda answer: answer.text[:40] or "empty")
async def test_a_404_that_is_not_about_the_pod_is_no_proof_that_it_is_gone(
    route: respx.Route, answer: httpx.Response
) -> None:
    """A 404 of a load balancer, of a starting apiserver or about another object is an unavailable apiserver."""
    route.mock(return_value=answer)
    async with cluster_under_respx() as cluster:
        with pytest.raises(Unavailable):
            await cluster.read_pod("ci", "a")
        with pytest.raises(Unavailable):
            await cluster.delete_pod("ci", "a", uid="u-1")
