"""Orders steps by their needs, and finds cycles."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence


def topological_order(needs: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The keys of `needs` in a stable topological order, and the cycles that had to be broken for it.

    Every value of `needs` must be a key. Of the keys whose needs have all come, the first one in `needs` comes next. In
    a cycle each key needs the next one, and the last key the first; cycles share no key.
    """
    rank = {key: place for place, key in enumerate(needs)}
    waiting = {key: len(set(wanted)) for key, wanted in needs.items()}
    dependents: dict[str, list[str]] = {key: [] for key in needs}
    for key, wanted in needs.items():
        for need in dict.fromkeys(wanted):
            dependents[need].append(key)
    ready = [(rank[key], key) for key, count in waiting.items() if count == 0]
    order: list[str] = []
    cycles: list[list[str]] = []
    while len(order) < len(needs):
        if not ready:
            cycles.append(_cycle(needs, set(order)))
            for key in cycles[-1]:
                waiting[key] = 0
                heapq.heappush(ready, (rank[key], key))
        _, key = heapq.heappop(ready)
        order.append(key)
        for dependent in dependents[key]:
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                heapq.heappush(ready, (rank[dependent], dependent))
    return order, cycles


def _cycle(needs: Mapping[str, Sequence[str]], done: set[str]) -> list[str]:
    """A cycle among the keys that are not done, each of which needs another one of them."""
    key = next(key for key in needs if key not in done)
    path: dict[str, int] = {}
    while key not in path:
        path[key] = len(path)
        key = next(need for need in needs[key] if need not in done)
    return list(path)[path[key] :]
