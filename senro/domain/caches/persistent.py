"""Workspaces that live from run to run: when one is given up, and what is written down about it meanwhile.

**Age counts from when the content was made**, as a cache's max-age does, and not from its last use: a workspace that
is used every day would otherwise never reach its bound, and what gathers in it would stay for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from senro.domain.text.age import age_text

Bound = Literal["max_age", "max_size", "unfinished"]
"""Why one was evicted. `unfinished`: a run was killed while a step changed it, and no whole content can be restored."""


class PersistentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a workspace's content, beside it on disk; written before and after everything that changes it.

    `made` and `max_age` are seconds, `made` since 1970, `max_size` is bytes. `digest` is its last snapshot, empty until
    there is one. `changing`: a step works in the folder itself. `released`: the run `run` has ended and applied its
    bounds; where that is missing, it was killed, and whoever comes next applies them.
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
    """One bound that does not hold: `limit` and what was `measured`, both in seconds or in bytes."""

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

    A clock that was set back makes nothing older: an age is never less than 0.
    """
    age = max(0.0, now - record.made)
    if age > record.max_age:
        return Eviction("max_age", record.max_age, age)
    if size > record.max_size:
        return Eviction("max_size", record.max_size, size)
    return None


def at_lease(record: PersistentRecord | None, bounds: tuple[float, int], *, now: float, size: int) -> Eviction | None:
    """Whether content that is there must go before a run with `bounds` (max_age, max_size) may have it.

    By the run's own bounds, and by those that a killed run wrote down and could not apply. Content of which nothing is
    known (no record, or one that never had a digest) is half of something.
    """
    if record is None or not record.digest:
        return Eviction("unfinished")
    own = msgspec.structs.replace(record, max_age=bounds[0], max_size=bounds[1])
    return exceeded(own, now=now, size=size) or (None if record.released else exceeded(record, now=now, size=size))
