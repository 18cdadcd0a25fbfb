"""What `senro cache gc` deletes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

ItemKind = Literal["snapshot", "scratch"]
"""The items of the cache: snapshots of workspaces, entries of scratch caches."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of the cache, which is kept or deleted as a whole.

    `kind`, `name`: what it is.
    `used`: when it was last written or read, in seconds.
    `size`: its own size in bytes, without `bodies`.
    `bodies`: the names of the contents that it may share with other items.
    `needed`: whether it is kept whatever the bounds, for a run that goes on or failed, or a persistent workspace.
    """

    kind: ItemKind
    name: str
    used: float
    size: int
    bodies: frozenset[str] = frozenset()
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to delete.

    `items`: the items, to delete in this order.
    `bodies`: the bodies, to delete after the items, so that an interrupted sweep leaves no item without its bodies.
    `freed`, `kept`: the bytes of items and bodies that are deleted and kept.
    """

    items: tuple[Item, ...]
    bodies: frozenset[str]
    freed: int
    kept: int


def sweep(
    items: Iterable[Item], bodies: Mapping[str, int], *, now: float, max_age: float | None, max_size: int | None
) -> Sweep:
    """What to delete of `items`, and of `bodies`, the contents with their sizes in bytes.

    Deleted are items that were last used more than `max_age` seconds ago, then the least recently used ones while the
    rest has more than `max_size` bytes, and bodies without an item. Items that are needed stay.
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
