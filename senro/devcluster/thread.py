"""The cluster in a thread and event loop of its own, for callers that block; and the blocking server of the CLI."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from senro.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self


class DevClusterThread:
    """`with DevClusterThread(...) as cluster:` - the same arguments as `DevCluster`.

    The cluster's reading methods and `cluster.faults` may be used from the caller's thread as they are; `call` runs
    anything else, such as `cluster.evict`, in the cluster's own loop.
    """

    def __init__(self, port: int = 0, **options: Any) -> None:
        self.cluster = DevCluster(port, **options)
        self._portal_manager: AbstractContextManager[BlockingPortal] = start_blocking_portal("asyncio")
        self._portal: BlockingPortal | None = None
        self._running: AbstractContextManager[DevCluster] | None = None

    def __enter__(self) -> Self:
        self._portal = self._portal_manager.__enter__()
        try:
            self._running = self._portal.wrap_async_context_manager(self.cluster)
            self._running.__enter__()
        except BaseException as error:
            self._portal_manager.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._running is not None:
                self._running.__exit__(kind, error, trace)
        finally:
            self._portal_manager.__exit__(None, None, None)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the cluster's loop and return what it returns."""
        if self._portal is None:
            raise RuntimeError("the cluster is not running")
        return self._portal.call(function, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)


def serve(port: int, announce: Callable[[DevCluster], None], **options: Any) -> None:
    """Run a cluster until SIGINT or SIGTERM, or until KeyboardInterrupt where this is not the main thread.

    `announce` is called once with the cluster when it answers.
    """

    async def main() -> None:
        async with DevCluster(port, **options) as cluster:
            announce(cluster)
            if threading.current_thread() is not threading.main_thread():
                await anyio.sleep_forever()
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    return

    anyio.run(main)
