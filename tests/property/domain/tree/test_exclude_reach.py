"""The reach of patterns, compared with the patterns themselves."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.tree.exclude_reach import reach_of
from senro.domain.tree.excludes import compile_excludes
from tests.property.domain.tree.test_excludes import PATHS, PATTERNS


@given(patterns=st.lists(PATTERNS, max_size=4), path=PATHS)
def test_nothing_is_missed(patterns: list[str], path: str) -> None:
    """Every directory above a matching file is entered."""
    above = posixpath.dirname(path)
    if compile_excludes(patterns).matches(path, directory=False):
        while above:
            assert reach_of(patterns).enters(above)
            above = posixpath.dirname(above)


@pytest.mark.parametrize(
    ("patterns", "entered", "passed_by"),
    [
        (["go.sum"], ["go.sum", "go.sum/a"], ["a", "a/go.sum", "go.sums"]),
        (["*.lock", "a/b*/c"], ["x.lock", "a", "a/b1", "a/b1/c/d"], ["b", "a/c", "a/b1/d", "x"]),
        (["a/**/c"], ["a", "a/b/x"], ["b"]),
        (["**/go.sum"], ["a", "a/b"], []),
        (["tools/"], ["tools", "tools/x"], ["tool"]),
        (["src/!x/*.txt"], ["src", "src/!x"], ["a", "src/x"]),
        ([], [], ["a"]),
    ],
)
def test_cases(patterns: list[str], entered: list[str], passed_by: list[str]) -> None:
    """A directory is entered if something below it may match, and only then."""
    reach = reach_of(patterns)
    assert [path for path in (*entered, *passed_by) if reach.enters(path)] == entered
