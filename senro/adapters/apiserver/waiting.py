"""Tasks that run as long as a context is open, and waiting for an event with a timeout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from senro.ports.clock import Clock


@asynccontextmanager
async def background() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group whose tasks are cancelled when the context is left.

    An exception inside the context is raised as it is, so that callers can catch `ClusterError`; a plain task group
    would wrap it in an `ExceptionGroup`.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group
        except Exception as error:  # noqa: BLE001 - raised again below, outside the group
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def wait_at_most(event: anyio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for the event, at most `seconds` of `clock`. Returns whether it is set."""

    async def give_up() -> None:
        await clock.sleep(seconds)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        await event.wait()
        group.cancel_scope.cancel()
    return event.is_set()
