"""Exclude patterns against a plain model, and case by case."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.errors import PlanError
from senro.domain.excludes import DEFAULT_EXCLUDES, compile_excludes, exclude_refusals


@cache
def _model(pattern: str, path: str) -> bool:
    """Whether the whole pattern matches the whole path, by trying everything."""
    if not pattern:
        return not path
    if pattern.startswith("**/"):
        return _model(pattern[3:], path) or any(
            _model(pattern[3:], path[at + 1 :]) for at, letter in enumerate(path) if letter == "/"
        )
    if pattern.startswith("**"):
        return any(_model(pattern[2:], path[at:]) for at in range(len(path) + 1))
    if pattern.startswith("*"):
        return any(_model(pattern[1:], path[at:]) for at in range(len(path) + 1) if "/" not in path[:at])
    if not path:
        return False
    fits = path[0] != "/" if pattern[0] == "?" else path[0] == pattern[0]
    return fits and _model(pattern[1:], path[1:])


def _excluded(pattern: str, path: str, *, directory: bool) -> bool:
    """The model: the entry or one of its parents matches; with a trailing slash only directories do."""
    only_directories = pattern.endswith("/")
    body = pattern.removesuffix("/")
    segments = path.split("/")
    parents = ["/".join(segments[:count]) for count in range(1, len(segments))]
    if any(_model(body, parent) for parent in parents):
        return True
    return (directory or not only_directories) and _model(body, path)


# `a**/b` is left to its own test: `**` within a segment crosses folders where the model's prefix rule would not look.
_SEGMENTS = st.sampled_from(["a", "b", "*", "?", "**", "a*", "*b", "?a", ".x", "a.b", "[a]", "a+"])
_PATTERNS = st.builds(
    lambda segments, slash: "/".join(segments) + slash,
    st.lists(_SEGMENTS, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
)
_PATHS = st.lists(
    st.sampled_from(["a", "b", "ab", "ba", "aab", ".x", "a.b", "axb", "[a]", "a+", "aa", "a\nb"]),
    min_size=1,
    max_size=4,
).map("/".join)


@given(pattern=_PATTERNS, path=_PATHS, directory=st.booleans())
def test_as_the_model(pattern: str, path: str, *, directory: bool) -> None:
    """A pattern matches what the model says it does, nothing else."""
    assert compile_excludes([pattern]).matches(path, directory=directory) == _excluded(
        pattern, path, directory=directory
    )


@given(patterns=st.lists(_PATTERNS, max_size=4), path=_PATHS, directory=st.booleans())
def test_any_of_them(patterns: list[str], path: str, *, directory: bool) -> None:
    """A path stays behind if one pattern says so."""
    together = compile_excludes(patterns).matches(path, directory=directory)
    assert together == any(compile_excludes([one]).matches(path, directory=directory) for one in patterns)


@given(pattern=_PATTERNS, path=_PATHS, below=_PATHS, directory=st.booleans())
def test_everything_under_it(pattern: str, path: str, below: str, *, directory: bool) -> None:
    """What lies in an excluded directory is excluded."""
    excludes = compile_excludes([pattern])
    if excludes.matches(path, directory=True):
        assert excludes.matches(f"{path}/{below}", directory=directory)


@pytest.mark.parametrize(
    ("pattern", "path", "directory", "expected"),
    [
        ("*.pyc", "a.pyc", False, True),
        ("*.pyc", "a/b.pyc", False, False),
        ("**/*.pyc", "a.pyc", False, True),
        ("**/*.pyc", "a/b/c.pyc", False, True),
        ("**.pyc", "a/b/c.pyc", False, True),
        ("build", "build", True, True),
        ("build", "build/x/y", False, True),
        ("build", "src/build", True, False),
        ("build/", "build", True, True),
        ("build/", "build", False, False),
        ("build/", "build/x", False, True),
        ("build/**", "build", True, False),
        ("build/**", "build/x", False, True),
        ("build/**/", "build/x", False, False),
        ("build/**/", "build/x", True, True),
        ("a/**/b", "a/b", False, True),
        ("a/**/b", "a/x/y/b", False, True),
        ("a/**/b", "a/xb", False, False),
        ("a**/b", "ax/y/b", False, True),
        ("a**/b", "ab", False, False),
        ("?", "a", False, True),
        ("?", "ab", False, False),
        ("a?b", "a/b", False, False),
        ("?", "\udcff", False, True),
        ("*", ".hidden", False, True),
        ("[slug].ts", "[slug].ts", False, True),
        ("[slug].ts", "s.ts", False, False),
        ("A", "a", False, False),
        ("a", "a\nb", False, False),
        ("a*", "a\nb", False, True),
    ],
)
def test_cases(pattern: str, path: str, *, directory: bool, expected: bool) -> None:
    """The cases that people ask about."""
    assert compile_excludes([pattern]).matches(path, directory=directory) is expected


@pytest.mark.parametrize("path", [".git", "sub/.git", "node_modules", "web/node_modules", "web/node_modules/x/y.js"])
def test_defaults(path: str) -> None:
    """`.git` and `node_modules` stay behind at any depth, also where they are no directories."""
    excludes = compile_excludes(DEFAULT_EXCLUDES)
    assert excludes.matches(path, directory=True)
    assert excludes.matches(path, directory=False)


@pytest.mark.parametrize("path", [".gitignore", ".github/x", "a.git", "node_modules2", "my_node_modules"])
def test_defaults_take_no_more(path: str) -> None:
    """Names that only look like the defaults are kept."""
    assert not compile_excludes(DEFAULT_EXCLUDES).matches(path, directory=True)


def test_nothing() -> None:
    """Without patterns nothing stays behind."""
    assert not compile_excludes([]).matches("a", directory=True)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "is empty"),
        ("!a", "negation"),
        ("/a", "begins with `/`"),
        ("/", "begins with `/`"),
        ("a//b", "empty"),
        ("a//", "empty"),
        ("./a", r"`\.`"),
        ("a/..", r"`\.\.`"),
        ("a\\b", "backslash"),
        ("a\0", "NUL"),
        ("a/***", "three stars"),
    ],
)
def test_refused(pattern: str, why: str) -> None:
    """A pattern without a meaning is refused, with what to write instead."""
    with pytest.raises(PlanError, match=why):
        compile_excludes([pattern])


def test_refused_at_once() -> None:
    """Every wrong pattern is refused at once, each naming where it stands; right ones are not mentioned."""
    refusals = exclude_refusals("workspace `src`", ["!a", "ok", "/b"])
    assert [(one.where, one.rule) for one in refusals] == [("workspace `src`", "exclude")] * 2
    assert "'!a'" in refusals[0].message
    assert "'/b'" in refusals[1].message


@given(st.text(max_size=12), _PATHS)
def test_any_text(pattern: str, path: str) -> None:
    """Any text is either refused or a pattern that can be asked."""
    if exclude_refusals("here", [pattern]):
        with pytest.raises(PlanError):
            compile_excludes([pattern])
    else:
        compile_excludes([pattern]).matches(path, directory=False)
