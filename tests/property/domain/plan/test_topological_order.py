from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.plan.topological_order import topological_order

KEYS = "abcdefgh"
graphs = st.fixed_dictionaries({key: st.lists(st.sampled_from(KEYS), max_size=3) for key in KEYS})
acyclic = graphs.map(lambda graph: {key: [need for need in needs if need < key] for key, needs in graph.items()})


@given(acyclic, st.permutations(KEYS))
def test_every_key_stands_after_what_it_needs(graph: dict[str, list[str]], written: list[str]) -> None:
    """Each key comes once, after all its needs; and what could have come earlier was written later."""
    order, cycles = topological_order({key: graph[key] for key in written})
    assert cycles == []
    assert sorted(order) == sorted(KEYS)
    for place, key in enumerate(order):
        assert set(graph[key]) <= set(order[:place])
        ready = [other for other in order[place:] if set(graph[other]) <= set(order[:place])]
        assert key == min(ready, key=written.index)


@given(graphs)
def test_every_cycle_is_one_and_breaking_all_of_them_leaves_an_order(graph: dict[str, list[str]]) -> None:
    """In each cycle a key needs the next, and the last the first; without their keys' needs there is no cycle left."""
    order, cycles = topological_order(graph)
    assert sorted(order) == sorted(KEYS)
    found = [key for cycle in cycles for key in cycle]
    assert len(set(found)) == len(found)
    for cycle in cycles:
        for key, need in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert need in graph[key]
    broken = {key: [] if key in found else needs for key, needs in graph.items()}
    assert topological_order(broken)[1] == []


def test_a_key_that_needs_itself_is_a_cycle() -> None:
    """The shortest cycle has one key."""
    assert topological_order({"a": [], "b": ["b", "a"]}) == (["a", "b"], [["b"]])


def test_two_circles_are_two_cycles() -> None:
    """Every one is named, not only the first."""
    order, cycles = topological_order({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c", "a"]})
    assert cycles == [["a", "b"], ["c", "d"]]
    assert order == ["a", "b", "c", "d"]
