"""Waiting for one of two things."""

from __future__ import annotations

import anyio

from senro.ports.clock import Clock


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
