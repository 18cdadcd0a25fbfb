from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.plan.topological_order import topological_order

KEYS = "abcdefgh"
graphs = st.fixed_dictionaries({key: st.lists(st.sampled_from(KEYS), max_size=3) for key in KEYS})
acyclic = graphs.map(lambda graph: {key: [need for need in needs if need < key] for key, needs in graph.items()})


@given(acyclic, st.permutations(KEYS))
def test_every_key_follows_its_needs(graph: dict[str, list[str]], written: list[str]) -> None:
    """Each key is there once, after its needs, as early as the order of the input allows."""
    order, cycles = topological_order({key: graph[key] for key in written})
    assert cycles == []
    assert sorted(order) == sorted(KEYS)
    for place, key in enumerate(order):
        assert set(graph[key]) <= set(order[:place])
        ready = [other for other in order[place:] if set(graph[other]) <= set(order[:place])]
        assert key == min(ready, key=written.index)


@given(graphs)
def test_every_cycle_is_found(graph: dict[str, list[str]]) -> None:
    """In each cycle a key needs the next one; without the cycles' needs there is no cycle left."""
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


def test_two_cycles() -> None:
    """Both are found, not only the first."""
    order, cycles = topological_order({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c", "a"]})
    assert cycles == [["a", "b"], ["c", "d"]]
    assert order == ["a", "b", "c", "d"]
