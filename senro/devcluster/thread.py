"""The cluster in a thread and event loop of its own, for callers that block; and the blocking server of the CLI."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import start_blocking_portal

from senro.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType


class DevClusterThread:
    """`with DevClusterThread(...) as cluster:` - the arguments of `DevCluster`, and what it gives is one.

    The cluster's own methods and `cluster.faults` may be used from the caller's thread, which may block as it likes.
    """

    def __init__(self, port: int = 0, **options: Any) -> None:
        self._cluster = DevCluster(port, **options)
        self._exit = ExitStack()

    def __enter__(self) -> DevCluster:
        with ExitStack() as entered:
            portal = entered.enter_context(start_blocking_portal("asyncio"))
            cluster = entered.enter_context(portal.wrap_async_context_manager(self._cluster))
            self._exit = entered.pop_all()
        return cluster

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.__exit__(kind, error, trace)


def serve(port: int, announce: Callable[[DevCluster], None], **options: Any) -> None:
    """Run a cluster until SIGINT or SIGTERM; elsewhere than in the main thread, until that thread's loop is ended.

    `announce` is called once with the cluster when it answers. `options` are `DevCluster`'s.
    """

    async def main() -> None:
        if threading.current_thread() is not threading.main_thread():
            await run_until(anyio.sleep_forever)
            return
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            await run_until(signals.__anext__)

    async def run_until(end: Callable[[], Awaitable[Any]]) -> None:
        async with DevCluster(port, **options) as cluster:
            announce(cluster)
            await end()

    anyio.run(main)
