"""Connects to the cluster of a configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from senro.adapters.apiserver.configuration import Configuration
from senro.adapters.apiserver.execs import Execs
from senro.adapters.apiserver.in_flight_requests import InFlightRequests, in_flight_requests
from senro.adapters.apiserver.leases import Leases
from senro.adapters.apiserver.logs import LogStreams
from senro.adapters.apiserver.objects import Objects
from senro.adapters.apiserver.rest import Rest
from senro.adapters.apiserver.sender import Sender
from senro.adapters.apiserver.tls import rest_client, stream_client
from senro.adapters.apiserver.tokens import Authorization
from senro.ports.clock import Clock, Randomness
from senro.ports.cluster import Cluster


class ApiserverCluster(Objects, Leases, LogStreams, Execs):
    """Implements `senro.ports.cluster.Cluster` by two HTTP clients with one identity."""

    def __init__(
        self,
        address: str,
        *,
        short: httpx.AsyncClient,
        streams: httpx.AsyncClient,
        authorization: Authorization,
        in_flight_requests: InFlightRequests,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        rest = Rest(Sender(short, authorization, in_flight_requests), clock=clock, randomness=randomness)
        Objects.__init__(self, rest)
        Leases.__init__(self, rest)
        LogStreams.__init__(self, Sender(streams, authorization, in_flight_requests))
        Execs.__init__(self, Sender(streams, authorization, in_flight_requests), clock=clock, randomness=randomness)
        self._address = address

    def __repr__(self) -> str:
        return f"<ApiserverCluster {self._address}>"

    @property
    def address(self) -> str:
        """See the port."""
        return self._address


@asynccontextmanager
async def connect(configuration: Configuration, *, clock: Clock, randomness: Randomness) -> AsyncIterator[Cluster]:
    """Open the clients of a cluster; leaving the context closes them and ends all requests.

    Nothing is sent before the first call, which should be `version`. A request from a shielded scope goes on while the
    scope around this context is cancelled.
    """
    short, streams = rest_client(configuration), stream_client(configuration)
    async with in_flight_requests(short, streams) as live:
        yield ApiserverCluster(
            configuration.address,
            short=short,
            streams=streams,
            authorization=Authorization(configuration.credential),
            in_flight_requests=live,
            clock=clock,
            randomness=randomness,
        )
