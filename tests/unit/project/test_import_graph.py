"""The import graph of the package has no cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import grimp
import pytest

ROOT = "senro"
PACKAGES = ("senro", "senro.adapters", "senro.app", "senro.cli", "senro.domain")
"""Packages whose children must not import each other in a cycle."""


@cache
def import_graph() -> grimp.ImportGraph:
    """Returns all imports of the package, including those for type checkers."""
    return grimp.build_graph(ROOT, cache_dir=None)


def strong_components(graph: Mapping[str, frozenset[str]]) -> Iterator[set[str]]:
    """Returns the sets of more than one node in which each node reaches the others."""
    reached = {node: _reachable(graph, node) for node in graph}
    seen: set[str] = set()
    for node in graph:
        if node not in seen:
            together = {other for other in reached[node] if node in reached[other]}
            seen |= together
            if len(together) > 1:
                yield together


def _reachable(graph: Mapping[str, frozenset[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for node in graph[waiting.pop()] - found:
            found.add(node)
            waiting.append(node)
    return found


def test_modules_have_no_import_cycle() -> None:
    """No chain of imports leads from a module back to it, including imports for type checkers."""
    graph = import_graph()
    modules = {name: frozenset(graph.find_modules_directly_imported_by(name)) for name in graph.modules}
    assert [sorted(cycle) for cycle in strong_components(modules)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_have_no_import_cycle(package: str) -> None:
    """No chain leads from a child of these packages, with its modules, through another child back to it."""
    graph = import_graph()

    def child(name: str) -> str:
        return ".".join(name.split(".")[: package.count(".") + 2])

    children: dict[str, set[str]] = {}
    for name in graph.modules:
        if name.startswith(f"{package}."):
            imported = graph.find_modules_directly_imported_by(name)
            children.setdefault(child(name), set()).update(
                child(other) for other in imported if other.startswith(f"{package}.")
            )
    edges = {name: frozenset(others - {name}) for name, others in children.items()}
    assert [sorted(cycle) for cycle in strong_components(edges)] == []


def test_the_domain_has_only_packages() -> None:
    """The only module directly in `senro.domain` is errors, which every layer raises."""
    graph = import_graph()
    modules = {name for name in graph.find_children("senro.domain") if not graph.find_children(name)}
    assert modules == {"senro.domain.errors"}
