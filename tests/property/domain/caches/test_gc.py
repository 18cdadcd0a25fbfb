"""What `senro cache gc` deletes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.caches.gc import Item, Sweep, sweep

NOW = 1000.0
BODIES = "abcdefgh"

bodies = st.dictionaries(st.sampled_from(BODIES), st.integers(0, 50))
bounds = st.fixed_dictionaries({"max_age": st.none() | st.floats(0, 1200), "max_size": st.none() | st.integers(0, 300)})


@st.composite
def caches(draw: st.DrawFn) -> list[Item]:
    """Items of both kinds with distinct names, used at any times, also equal or future ones."""
    return [
        Item(
            kind="snapshot" if held else "scratch",
            name=f"{number}",
            used=draw(st.integers(0, 1100)),
            size=draw(st.integers(0, 50)),
            bodies=frozenset(held),
            needed=draw(st.booleans()),
        )
        for number, held in enumerate(draw(st.lists(st.lists(st.sampled_from(BODIES), max_size=4), max_size=8)))
    ]


def size_of(items: list[Item], held: dict[str, int]) -> int:
    """The size of the items, with each body once."""
    return sum(item.size for item in items) + sum(held[body] for body in held if any(body in i.bodies for i in items))


def kept_by(decision: Sweep, items: list[Item]) -> list[Item]:
    return [item for item in items if item not in decision.items]


@given(caches(), bodies, bounds)
def test_needed_items_are_kept(items: list[Item], held: dict[str, int], bound: Any) -> None:
    """Needed items, and the bodies of kept items, stay; every other body is deleted."""
    decision = sweep(items, held, now=NOW, **bound)
    assert not [item for item in decision.items if item.needed]
    had = {body for item in kept_by(decision, items) for body in item.bodies}
    assert decision.bodies == held.keys() - had


@given(caches(), bodies, st.floats(0, 1200), st.none() | st.integers(0, 300))
def test_old_items_are_deleted(items: list[Item], held: dict[str, int], age: float, size: int | None) -> None:
    """No item that is not needed was last used longer ago than the bound."""
    decision = sweep(items, held, now=NOW, max_age=age, max_size=size)
    assert all(item.needed or NOW - item.used <= age for item in kept_by(decision, items))


@given(caches(), bodies, bounds)
def test_the_rest_is_within_the_bound(items: list[Item], held: dict[str, int], bound: Any) -> None:
    """The rest is within the bound, or has only needed items."""
    decision = sweep(items, held, now=NOW, **bound)
    kept = kept_by(decision, items)
    assert decision.kept == size_of(kept, held)
    assert decision.freed == sum(item.size for item in items) + sum(held.values()) - decision.kept
    most = bound["max_size"]
    assert most is None or decision.kept <= most or all(item.needed for item in kept)


@given(caches(), bodies, bounds)
def test_the_least_recently_used_items_are_deleted(items: list[Item], held: dict[str, int], bound: Any) -> None:
    """No kept item was used before a deleted one, and the last deletion was necessary."""
    decision = sweep(items, held, now=NOW, **bound)
    free = [item for item in kept_by(decision, items) if not item.needed]
    assert all(gone.used <= item.used for gone in decision.items for item in free)
    if decision.items:
        last = decision.items[-1]
        age, most = bound["max_age"], bound["max_size"]
        before = size_of([*kept_by(decision, items), last], held)
        assert (age is not None and NOW - last.used > age) or (most is not None and before > most)


@given(caches(), bodies)
def test_without_bounds_only_orphaned_bodies_are_deleted(items: list[Item], held: dict[str, int]) -> None:
    """No item is deleted."""
    decision = sweep(items, held, now=NOW, max_age=None, max_size=None)
    assert decision.items == ()
    assert decision.bodies == held.keys() - {body for item in items for body in item.bodies}


@given(caches(), bodies, bounds)
def test_a_second_sweep_finds_nothing(items: list[Item], held: dict[str, int], bound: Any) -> None:
    """A second sweep deletes nothing."""
    first = sweep(items, held, now=NOW, **bound)
    left = {body: size for body, size in held.items() if body not in first.bodies}
    again = sweep(kept_by(first, items), left, now=NOW, **bound)
    assert (again.items, again.bodies, again.freed, again.kept) == ((), frozenset(), 0, first.kept)


def test_a_shared_body_is_kept() -> None:
    """Deleting one of two snapshots with a common body frees only its own bytes."""
    items = [Item("snapshot", "x", 1, 10, frozenset("a")), Item("snapshot", "y", 2, 10, frozenset("a"))]
    decision = sweep(items, {"a": 100}, now=3, max_age=None, max_size=110)
    assert ([item.name for item in decision.items], decision.bodies, decision.freed) == (["x"], frozenset(), 10)
