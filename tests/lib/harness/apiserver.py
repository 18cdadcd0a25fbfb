"""What the tests of the apiserver adapter share: recordings, and a cluster whose HTTP requests respx answers."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from senro.adapters.apiserver.cluster import ApiserverCluster, connect
from senro.adapters.apiserver.configuration import Configuration, Credential, Token
from senro.adapters.apiserver.in_flight_requests import in_flight_requests
from senro.adapters.apiserver.rest import Rest
from senro.adapters.apiserver.sender import Sender
from senro.adapters.apiserver.tokens import Authorization
from senro.adapters.apiserver.websocket import expected_accept
from senro.ports.cluster import Cluster
from tests.lib.fakes.clock import FakeClock, FakeRandomness
from tests.lib.fakes.server import server_authority

RECORDINGS = Path(__file__).parents[2] / "contract" / "recordings"
SERVER = "https://apiserver.example:6443"

SWITCHING = (
    "HTTP/1.1 101 Switching Protocols\r\n"
    "Upgrade: websocket\r\n"
    "Connection: Upgrade\r\n"
    f"Sec-WebSocket-Accept: {expected_accept(b'0000000000000001')}\r\n"
    "Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
)
"""The 101 for the first exec with a `FakeRandomness`, to be formatted with the subprotocol."""

Exchange = dict[str, Any]


@cache
def recording(scenario: str) -> dict[str, Any]:
    """Returns a recorded scenario."""
    loaded: dict[str, Any] = json.loads((RECORDINGS / f"{scenario}.json").read_text())
    return loaded


def exchanges() -> Iterator[tuple[str, int, Exchange]]:
    """Yields the scenario, position and content of every recorded exchange."""
    for path in sorted(RECORDINGS.glob("*.json")):
        if path.stem != "expected":
            for position, exchange in enumerate(recording(path.stem)["exchanges"]):
                yield path.stem, position, exchange


def body_of(part: dict[str, Any]) -> bytes:
    """Returns the bytes of a recorded request or answer."""
    if "json" in part:
        return json.dumps(part["json"]).encode()
    if "chunks" in part:
        return b"".join(base64.b64decode(chunk["base64"]) for chunk in part["chunks"])
    return base64.b64decode(part.get("base64", ""))


class Pieces(httpx.AsyncByteStream):
    """A body that arrives in pieces. An exception among them is raised."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


@asynccontextmanager
async def cluster_under_respx(
    *, credential: Credential | None = None, clock: FakeClock | None = None, randomness: FakeRandomness | None = None
) -> AsyncIterator[ApiserverCluster]:
    """Yields the adapter over plain clients, for use inside `respx.mock`, which replaces their connections."""
    authorization = Authorization(credential or Token("made-up-token"))
    clock, randomness = clock or FakeClock(auto=True), randomness or FakeRandomness()
    async with (
        httpx.AsyncClient(base_url=SERVER, trust_env=False, verify=False) as short,
        httpx.AsyncClient(base_url=SERVER, trust_env=False, verify=False) as streams,
        in_flight_requests() as live,
    ):
        yield ApiserverCluster(
            SERVER,
            short=short,
            streams=streams,
            authorization=authorization,
            in_flight_requests=live,
            clock=clock,
            randomness=randomness,
        )


@asynccontextmanager
async def rest_under_respx(clock: FakeClock | None = None) -> AsyncIterator[Rest]:
    """Yields the REST layer alone, for requests that no port sends."""
    authorization = Authorization(Token("made-up-token"))
    clock = clock or FakeClock(auto=True)
    async with (
        httpx.AsyncClient(base_url=SERVER, trust_env=False, verify=False) as client,
        in_flight_requests() as live,
    ):
        yield Rest(Sender(client, authorization, live), clock=clock, randomness=FakeRandomness())


def configuration(
    port: int, *, credential: Credential | None = None, proxy: str | None = None, host: str = "127.0.0.1"
) -> Configuration:
    """Returns the configuration for a server of tests/lib/fakes/server.py."""
    return Configuration(
        server=f"https://{host}:{port}",
        ca=server_authority().cert.decode(),
        credential=credential or Token("made-up-token"),
        proxy=proxy,
    )


def connect_to(chosen: Configuration) -> AbstractAsyncContextManager[Cluster]:
    """Returns the adapter over real connections."""
    return connect(chosen, clock=FakeClock(), randomness=FakeRandomness())
