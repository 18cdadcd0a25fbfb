"""Exclude patterns, compared with a simple model and by cases."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.errors import PlanError
from senro.domain.pipeline.workspace import Workspace
from senro.domain.tree.content_rules import ContentRules, rules_of
from senro.domain.tree.excludes import (
    DEFAULT_EXCLUDES,
    IGNORE_BYTES,
    Excludes,
    compile_excludes,
    exclude_refusals,
    ignored,
    remote_excludes,
)
from senro.domain.tree.paths import raw
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import BUSYBOX_TAR, GNU_TAR, make_folder, needs_busybox, read_tree, trees


@cache
def _model(pattern: str, path: str) -> bool:
    """Whether the whole pattern matches the whole path, by trying all possibilities."""
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
    """The model: the entry or one of its parents matches; with a slash at the end only directories do."""
    only_directories = pattern.endswith("/")
    body = pattern.removesuffix("/")
    segments = path.split("/")
    parents = ["/".join(segments[:count]) for count in range(1, len(segments))]
    if any(_model(body, parent) for parent in parents):
        return True
    return (directory or not only_directories) and _model(body, path)


# `a**/b` is left to its own test: `**` within a segment crosses folders where the model's prefix rule would not look.
_SEGMENTS = st.sampled_from(["a", "b", "*", "?", "**", "a*", "*b", "?a", ".x", "a.b", "[a]", "a+"])
PATTERNS = st.builds(
    lambda segments, slash: "/".join(segments) + slash,
    st.lists(_SEGMENTS, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
)
PATHS = st.lists(
    st.sampled_from(["a", "b", "ab", "ba", "aab", ".x", "a.b", "axb", "[a]", "a+", "aa", "a\nb"]),
    min_size=1,
    max_size=4,
).map("/".join)


@given(pattern=PATTERNS, path=PATHS, directory=st.booleans())
def test_the_model(pattern: str, path: str, *, directory: bool) -> None:
    """A pattern matches exactly what the model matches."""
    assert compile_excludes([pattern]).matches(path, directory=directory) == _excluded(
        pattern, path, directory=directory
    )


@given(patterns=st.lists(PATTERNS, max_size=4), path=PATHS, directory=st.booleans())
def test_several_patterns(patterns: list[str], path: str, *, directory: bool) -> None:
    """A path is excluded if one pattern matches it."""
    together = compile_excludes(patterns).matches(path, directory=directory)
    assert together == any(compile_excludes([one]).matches(path, directory=directory) for one in patterns)


@given(pattern=PATTERNS, path=PATHS, below=PATHS, directory=st.booleans())
def test_the_content_of_an_excluded_directory(pattern: str, path: str, below: str, *, directory: bool) -> None:
    """It is excluded too."""
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
    """Typical patterns and paths."""
    assert compile_excludes([pattern]).matches(path, directory=directory) is expected


@pytest.mark.parametrize("path", [".git", "sub/.git", "node_modules", "web/node_modules", "web/node_modules/x/y.js"])
def test_defaults(path: str) -> None:
    """`.git` and `node_modules` are excluded at any depth, also if they are no directories."""
    excludes = compile_excludes(DEFAULT_EXCLUDES)
    assert excludes.matches(path, directory=True)
    assert excludes.matches(path, directory=False)


@pytest.mark.parametrize("path", [".gitignore", ".github/x", "a.git", "node_modules2", "my_node_modules"])
def test_names_that_resemble_the_defaults(path: str) -> None:
    """They are kept."""
    assert not compile_excludes(DEFAULT_EXCLUDES).matches(path, directory=True)


def test_no_patterns() -> None:
    """Without patterns nothing is excluded."""
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
def test_an_invalid_pattern(pattern: str, why: str) -> None:
    """It is refused with the remedy."""
    with pytest.raises(PlanError, match=why):
        compile_excludes([pattern])


def test_several_invalid_patterns() -> None:
    """All are refused at once, with what they belong to; valid ones are not mentioned."""
    refusals = exclude_refusals("workspace `src`", ["!a", "ok", "/b"])
    assert [(one.where, one.rule) for one in refusals] == [("workspace `src`", "exclude")] * 2
    assert "'!a'" in refusals[0].message
    assert "'/b'" in refusals[1].message


@given(st.text(max_size=12), PATHS)
def test_any_text(pattern: str, path: str) -> None:
    """Any text is refused or is a pattern that can be matched."""
    if exclude_refusals("here", [pattern]):
        with pytest.raises(PlanError):
            compile_excludes([pattern])
    else:
        compile_excludes([pattern]).matches(path, directory=False)


def test_an_ignore_file() -> None:
    """It has one pattern per line; blank lines, comments, white space at the end and a byte order mark are ignored."""
    content = b"\xef\xbb\xbf*.pyc\r\n\n  \n# a comment\nbuild/  \n**/caf\xe9\n?secret\n last"
    assert ignored("src/.senroignore", content) == (("*.pyc", "build/", "**/caf\udce9", "?secret", " last"), ())
    assert ignored("src/.senroignore", b"") == ((), ())


def test_invalid_lines_of_an_ignore_file() -> None:
    """Each is refused with its number and the remedy; the others are used."""
    patterns, refusals = ignored("src/.senroignore", b"ok\n!keep\n/top\n\nfine/\na\\b\n")
    assert patterns == ("ok", "fine/")
    assert [str(one).split(" the pattern ")[0] for one in refusals] == [
        f"src/.senroignore: line {number}:" for number in (2, 3, 6)
    ]
    for refusal, words in zip(refusals, ("'!keep' is a negation", "'/top' begins with `/`", "backslash"), strict=True):
        assert words in refusal.message
    assert {one.rule for one in refusals} == {"exclude"}


def test_a_large_ignore_file() -> None:
    """It is refused as a whole."""
    assert ignored("x", b"#" * IGNORE_BYTES) == ((), ())
    patterns, (refusal,) = ignored("x", b"a\n" * IGNORE_BYTES)
    assert patterns == ()
    assert "more than 65536 bytes" in refusal.message


@given(st.binary(max_size=60))
def test_any_ignore_file(content: bytes) -> None:
    """Each line of any bytes is ignored, a pattern, or refused."""
    patterns, refusals = ignored("here", content)
    compile_excludes(patterns)
    assert len(patterns) + len(refusals) <= content.count(b"\n") + 1


def test_the_rules_of_a_workspace() -> None:
    """Its excludes are the defaults, its own and those of its `.senroignore`; its policy for links is its own."""
    assert rules_of(Workspace("a")) == ContentRules(DEFAULT_EXCLUDES, "refuse", follow=False)
    told = Workspace("a", exclude=["*.o"], links="keep")
    assert rules_of(told, ("dist/",)) == ContentRules((*DEFAULT_EXCLUDES, "*.o", "dist/"), "keep", follow=False)
    assert rules_of(Workspace("a", preserve_symlinks=False)).follow


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (DEFAULT_EXCLUDES, (".git", "node_modules")),
        (("**/*.pyc", "**/core.*", "**/a b", "**/-x"), ("*.pyc", "core.*", "a b", "-x")),
        (("*.pyc", "build", "build/", "**/build/", "**/a/b", "a/**/b"), ()),
        (("**/a?b", "**/[a]", "**/a*b", "**/*a*", "**/*", "**/**", "**.pyc", "**/a**"), ()),
        (("**/caf\xe9", "**/a\nb", "**/\udcff"), ()),
        (("**/0", "**/1*", "**/*2", "**/3"), ("3",)),
        (("**/x", "**/x"), ("x",)),
        (("**/!", "**/#a", "**/!*"), ("!", "#a", "!*")),
    ],
)
def test_the_excludes_of_a_remote_tar(patterns: tuple[str, ...], told: tuple[str, ...]) -> None:
    """Only patterns about which both tars agree, and which match no root."""
    assert remote_excludes([patterns, patterns], ("0", "1", "12")) == told


def test_the_excludes_of_several_folders() -> None:
    """Only patterns of all folders qualify, since one tar packs them all; without folders there are none."""
    assert remote_excludes([("**/a", "**/b"), ("**/b", "**/c")], ("0", "1")) == ("b",)
    assert remote_excludes([], ()) == ()


_FARPATTERNS = st.lists(
    st.one_of(
        st.sampled_from(
            ["a", "b", "*.txt", "a*", "-*", "*b", ".*", "node_modules", "x*", "*y", "c", "*c", "+(a)", "{a}"]
        ),
        st.text("abc.*-+@!^$(){}|,~ '\"%\xe9?[]\\", min_size=1, max_size=4),
    ).map(lambda name: f"**/{name}"),
    min_size=1,
    max_size=4,
).filter(lambda patterns: not exclude_refusals("x", patterns))
_FAR_SEGMENTS = st.one_of(
    st.sampled_from(
        ["a", "b", "ab", "a.txt", ".txt", "node_modules", "node_modules2", "0", "-x", "xx", "y", "*", "{a}"]
    ),
    st.text("abc.*-+@!^$(){}|,~ '\"%\xe9?[]\\", min_size=1, max_size=4),
).filter(lambda name: name not in {".", ".."})


@cache
def _takes_excludes(*command: str) -> bool:
    """Whether a tar supports the option, which Debian's busybox does not."""
    asked = [*command, "-c", "--exclude=x", "-f", "/dev/null", "/dev/null"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.slow  # a process for each example
@pytest.mark.parametrize("command", [GNU_TAR, pytest.param(BUSYBOX_TAR, marks=needs_busybox)], ids=["gnu", "busybox"])
@given(drawn=trees(_FAR_SEGMENTS), patterns=_FARPATTERNS)
def test_a_remote_tar_leaves_out_what_is_excluded(
    command: list[str], drawn: tuple[Tree, dict[str, bytes]], patterns: list[str]
) -> None:
    """GNU and busybox tar with these options leave out exactly what the patterns exclude."""
    if not _takes_excludes(*command):
        pytest.skip("this tar was built without --exclude")
    told = remote_excludes([patterns], ("0",))
    with tempfile.TemporaryDirectory() as folder:
        make_folder(Path(folder) / "0", *drawn)
        data = subprocess.run(
            [*command, "-c", *(f"--exclude={name}" for name in told), "-f", "-", "0"],
            cwd=folder,
            capture_output=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        ).stdout
    excludes = compile_excludes([f"**/{name}" for name in told])
    assert read_tree(data) == Tree(tuple(entry for entry in drawn[0].entries if not _is_excluded(excludes, entry)))


def _is_excluded(excludes: Excludes, entry: Entry) -> bool:
    return excludes.matches(entry.path, directory=entry.kind == "directory")


_FNM_PATHNAME, _FNM_LEADING_DIR = 1, 8
_fnmatch = ctypes.CDLL(None).fnmatch


def _busybox_leaves_out(name: str, path: str) -> bool:
    """What busybox' archival/tar.c does for each `--exclude`, at every name of a path."""
    places = [0, *(at + 1 for at, letter in enumerate(path) if letter == "/")]
    flags = _FNM_PATHNAME | _FNM_LEADING_DIR
    return any(_fnmatch(raw(name), raw(path[at:]), flags) == 0 for at in places)


@given(drawn=trees(_FAR_SEGMENTS), patterns=_FARPATTERNS)
def test_busybox_rule_leaves_out_what_is_excluded(drawn: tuple[Tree, dict[str, bytes]], patterns: list[str]) -> None:
    """Busybox' rule with the system's fnmatch does too, for machines whose busybox lacks the option."""
    told = remote_excludes([patterns], ("0",))
    excludes = compile_excludes([f"**/{name}" for name in told])
    for entry in drawn[0].entries:
        omitted = any(_busybox_leaves_out(name, f"0/{entry.path}") for name in told)
        assert omitted == _is_excluded(excludes, entry)
