"""Persistent workspaces: their records on disk, and when their content is evicted.

Age counts from the creation of the content and not from its last use. Otherwise a workspace that is used every day
would never reach its bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from senro.domain.text.age import age_text

Bound = Literal["max_age", "max_size", "unfinished"]
"""Why content is evicted. `unfinished`: a run was killed while a step changed it, and it has no snapshot."""


class PersistentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a workspace's content, written before and after every change of it.

    `name`: the name of the workspace.
    `made`: when the content was created, in seconds since 1970.
    `max_age`, `max_size`: the bounds of the latest run, in seconds and bytes.
    `run`: the latest run.
    `digest`: its last snapshot, empty if there is none.
    `changing`: whether a step works in the folder itself.
    `released`: whether that run has ended and applied its bounds. If it was killed, the next run applies them.
    """

    name: str
    made: float
    max_age: float
    max_size: int
    run: str
    digest: str = ""
    changing: bool = False
    released: bool = False


@dataclass(frozen=True, slots=True)
class Eviction:
    """A bound that is exceeded: its `limit` and the `measured` value, in seconds or bytes."""

    bound: Bound
    limit: float = 0
    measured: float = 0

    def __str__(self) -> str:
        match self.bound:
            case "max_age":
                return f"it is {age_text(self.measured)} old, and max_age is {age_text(self.limit)}"
            case "max_size":
                return f"it holds {self.measured:.0f} bytes, and max_size is {self.limit:.0f}"
            case _:
                return "a run was killed while a step changed it"


def exceeded(record: PersistentRecord, *, now: float, size: int) -> Eviction | None:
    """The bound of the record that its content exceeds at `now` (seconds since 1970) with `size` bytes, if any.

    An age is at least 0, also if the clock was set back.
    """
    age = max(0.0, now - record.made)
    if age > record.max_age:
        return Eviction("max_age", record.max_age, age)
    if size > record.max_size:
        return Eviction("max_size", record.max_size, size)
    return None


def at_lease(record: PersistentRecord | None, bounds: tuple[float, int], *, now: float, size: int) -> Eviction | None:
    """Why existing content must be evicted before a run with `bounds` (max_age, max_size) uses it, None if it need not.

    The bounds of the run count, and those of a run that was killed. Content without a record or a digest is unfinished.
    """
    if record is None or not record.digest:
        return Eviction("unfinished")
    own = msgspec.structs.replace(record, max_age=bounds[0], max_size=bounds[1])
    return exceeded(own, now=now, size=size) or (None if record.released else exceeded(record, now=now, size=size))
