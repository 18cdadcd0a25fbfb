"""Rules for all files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = sorted(path for path in ROOT.glob("tests/**/test_*.py"))
SOURCES = sorted(ROOT.glob("senro/**/*.py"))
LONGEST = 500


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_every_test_has_a_docstring(path: Path) -> None:
    """The docstring is the claim of the test."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert [node.name for node in functions if not ast.get_docstring(node)] == []


def test_long_files_give_a_reason() -> None:
    """A file of more than 500 lines gives the reason in its docstring."""
    long = [path for path in (*SOURCES, *ROOT.glob("tests/**/*.py")) if len(path.read_text().splitlines()) > LONGEST]
    silent = [path.name for path in long if "500 lines" not in (ast.get_docstring(ast.parse(path.read_text())) or "")]
    assert silent == []


def test_the_end_to_end_tests_use_only_senro_testing() -> None:
    """They import no helper of these tests and no HTTP client.

    Except for the helper that starts an object store, which is another program.
    """
    for path in ROOT.glob("tests/e2e/*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        named |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        named -= {"tests.lib.harness.object_store"}
        assert [name for name in named if name.split(".")[0] in {"tests", "httpx", "websockets", "respx"}] == [], (
            path.name
        )


def test_no_todo_is_left() -> None:
    """No source file has a stub or a note of work to do."""
    words = ("TODO", "FIXME", "XXX", "NotImplementedError", "pragma: no cover")
    found = [(path.name, word) for path in SOURCES for word in words if word in path.read_text()]
    assert found == []


def test_what_needs_the_embedded_cluster_is_skipped_on_a_real_one() -> None:
    """End-to-end tests use `bench.devcluster`, which skips; none asserts that there is an embedded cluster."""
    asserted = [
        f"{path.name}:{number}"
        for path in (ROOT / "tests" / "e2e").glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"assert .*\bcluster is not None", line)
    ]
    assert asserted == []
