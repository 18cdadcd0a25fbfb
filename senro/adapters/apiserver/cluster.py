"""The cluster behind one configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from senro.adapters.apiserver.configuration import Configuration
from senro.adapters.apiserver.exchanges import Exchanges, exchanges
from senro.adapters.apiserver.execs import Execs
from senro.adapters.apiserver.leases import Leases
from senro.adapters.apiserver.logs import LogStreams
from senro.adapters.apiserver.objects import Objects
from senro.adapters.apiserver.rest import Rest
from senro.adapters.apiserver.tls import rest_client, stream_client
from senro.adapters.apiserver.tokens import Authorization
from senro.ports.clock import Chance, Clock
from senro.ports.cluster import Cluster


class ApiserverCluster(Objects, Leases, LogStreams, Execs):
    """`senro.ports.cluster.Cluster`: the parts of this package, behind two clients and one identity."""

    def __init__(
        self,
        address: str,
        *,
        short: httpx.AsyncClient,
        streams: httpx.AsyncClient,
        authorization: Authorization,
        exchanges: Exchanges,
        clock: Clock,
        chance: Chance,
    ) -> None:
        rest = Rest(short, authorization, exchanges=exchanges, clock=clock, chance=chance)
        Objects.__init__(self, rest)
        Leases.__init__(self, rest)
        LogStreams.__init__(self, streams, authorization, exchanges=exchanges)
        Execs.__init__(self, streams, authorization, exchanges=exchanges, clock=clock, chance=chance)
        self._address = address

    def __repr__(self) -> str:
        return f"<ApiserverCluster {self._address}>"

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return self._address


@asynccontextmanager
async def connect(configuration: Configuration, *, clock: Clock, chance: Chance) -> AsyncIterator[Cluster]:
    """The cluster, until the context is left. Nothing is sent before the first call: ask for its `version`.

    A request obeys the scope of whoever asked for it: one that is asked for in a shielded scope is answered also while
    the scope around this context is cancelled. Leaving ends the requests that others still wait for.
    """
    short, streams = rest_client(configuration), stream_client(configuration)
    async with exchanges(short, streams) as live:
        yield ApiserverCluster(
            configuration.address,
            short=short,
            streams=streams,
            authorization=Authorization(configuration.credential),
            exchanges=live,
            clock=clock,
            chance=chance,
        )
