"""What `senro cache gc` drops: a pure decision over what the cache holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

ItemKind = Literal["snapshot", "scratch"]
"""What lives in the cache on its own: a snapshot of a workspace, an entry of a scratch cache."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is kept or dropped, whole.

    `used` is when it was last written or read (seconds, on any clock that the others are on too), `size` what it takes
    by itself (bytes), `bodies` the contents that it shares with others, by name. A `needed` one is kept whatever the
    bounds: a run that goes on, a run that failed or a persistent workspace has it.
    """

    kind: ItemKind
    name: str
    used: float
    size: int
    bodies: frozenset[str] = frozenset()
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to do, and what it comes to. `freed` and `kept` are bytes, of items and bodies together.

    `items` are dropped in this order, then `bodies`: cut off in between, what is left are bodies that nobody has, which
    the next sweep drops.
    """

    items: tuple[Item, ...]
    bodies: frozenset[str]
    freed: int
    kept: int


def sweep(
    items: Iterable[Item], bodies: Mapping[str, int], *, now: float, max_age: float | None, max_size: int | None
) -> Sweep:
    """What to drop of `items`, and of `bodies`, which maps every content that is there to its size in bytes.

    Dropped are: what was last used longer than `max_age` seconds ago; then, while the rest takes more than `max_size`
    bytes, what was used longest ago; and each body that nothing kept has. What is needed stays, so the rest may take
    more than `max_size`.
    """
    items = list(items)
    holders = Counter(body for item in items for body in item.bodies if body in bodies)
    size = sum(item.size for item in items) + sum(bodies[body] for body in holders)
    total = sum(item.size for item in items) + sum(bodies.values())
    dropped = []
    for item in sorted((item for item in items if not item.needed), key=lambda item: (item.used, item.kind, item.name)):
        too_old = max_age is not None and now - item.used > max_age
        if not too_old and (max_size is None or size <= max_size):
            break
        dropped.append(item)
        size -= item.size
        for body in item.bodies & bodies.keys():
            holders[body] -= 1
            if not holders[body]:
                size -= bodies[body]
    gone = frozenset(body for body in bodies if not holders[body])
    return Sweep(tuple(dropped), gone, freed=total - size, kept=size)
