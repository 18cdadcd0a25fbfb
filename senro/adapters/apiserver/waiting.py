"""Tasks that serve whoever is inside a context, and waiting for one of two things."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from senro.ports.clock import Clock


@asynccontextmanager
async def background() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group whose tasks are cancelled when the context is left.

    What is raised inside comes out as it is: a bare task group would wrap it, and callers catch `ClusterError`.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group
        except Exception as error:  # noqa: BLE001 - raised again below, out of the group
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def wait_at_most(event: anyio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for the event, `seconds` by `clock` at most; whether it came."""

    async def give_up() -> None:
        await clock.sleep(seconds)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        await event.wait()
        group.cancel_scope.cancel()
    return event.is_set()
