"""Bounds the time of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from senro.domain.errors import Unreachable
from senro.ports.clock import Clock

T = TypeVar("T")


async def request_within(clock: Clock, seconds: float, operation: str, request: Callable[[], Awaitable[T]]) -> T:
    """Await `request`, and return or raise what it does. After `seconds` of `clock` it is cancelled.

    That raises `Unreachable`, as a lost response does: the request, which `operation` names, may have taken effect.
    """
    answers: list[T] = []
    failure: Exception | None = None

    async def give_up() -> None:
        await clock.sleep(seconds)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        try:
            answers.append(await request())
        except Exception as error:  # noqa: BLE001 - raised again below, outside the group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not answers:
        raise Unreachable(operation, cause=f"none within {seconds:g} s", sent=True)
    return answers[0]
