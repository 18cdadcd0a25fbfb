"""Trees with followed links, compared with the kernel's view of the same folder."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from senro.domain.errors import TreeError
from senro.domain.tree.excludes import compile_excludes
from senro.domain.tree.follow_links import MAX_HOPS
from senro.domain.tree.paths import MAX_PATH
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import directory, file, follow, link, make_folder

_PLACES = ("", "a", "a/b", "c")
_NAMES = ("l", "m", "n")
_TARGETS = st.lists(st.sampled_from(["..", "..", ".", "a", "b", "c", "l", "m", "f", ""]), min_size=1, max_size=5).map(
    lambda segments: "/".join(segments) or "."
)


_PATTERNS = st.lists(
    st.sampled_from(["l", "m/", "l/f", "a/l/", "**/b", "c/**", "**/l/b/", "*/m/f", "n/**"]), max_size=2, unique=True
)


@st.composite
def linked(draw: st.DrawFn) -> tuple[Tree, dict[str, bytes]]:
    """Some directories with a file each, and links that lead anywhere."""
    entries = [directory("a"), directory("a/b"), directory("c"), file("a/f", b"af"), file("a/b/f", b"abf")]
    contents = {"a/f": b"af", "a/b/f": b"abf", "c/f": b"cf"}
    entries.append(file("c/f", b"cf", executable=True))
    wanted = st.tuples(st.sampled_from(_PLACES), st.sampled_from(_NAMES))
    for place, name in sorted(draw(st.sets(wanted, max_size=4))):
        entries.append(link(f"{place}/{name}".lstrip("/"), draw(_TARGETS)))
    return Tree(tuple(entries), links="keep"), contents


def _as_the_kernel_sees_it(folder: Path) -> Tree | None:
    """What os.walk with followed links shows; None if a link leaves, leads to nothing, or to a directory above it."""
    entries = []
    top = os.path.realpath(folder)
    for place, directories, files in os.walk(folder, followlinks=True):
        for name in directories + files:
            path = Path(place) / name
            shown = str(path.relative_to(folder))
            if shown.count("/") > 12:
                return None  # it goes on for ever: there are four directories
            try:
                status = path.stat()
            except OSError:
                return None
            if not f"{os.path.realpath(path)}/".startswith(f"{top}/"):
                return None
            if stat.S_ISDIR(status.st_mode):
                entries.append(directory(shown))
            else:
                entries.append(file(shown, path.read_bytes(), executable=bool(status.st_mode & 0o100)))
    return Tree(tuple(entries))


@pytest.mark.slow  # a folder for each example
@given(linked())
@example((Tree((file("f"), link("l", "f"))), {"f": b""}))
@example((Tree((directory("d"), link("d/up", "..")), links="keep"), {}))
@example((Tree((directory("a"), directory("b"), link("a/l", "../b"), link("b/m", "../a"))), {}))
@example((Tree((directory("d"), file("d/f"), link("l", "d/")), links="keep"), {"d/f": b""}))
@example((Tree((file("f"), link("l", "f/")), links="keep"), {"f": b""}))
@example((Tree((file("f"), link("l", "f/.")), links="keep"), {"f": b""}))
def test_the_kernel_agrees(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """The tree with followed links is what the kernel shows; links that loop or leave are refused."""
    tree, contents = drawn
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "root"
        make_folder(folder, tree, contents)
        expected = _as_the_kernel_sees_it(folder)
    if expected is None:
        with pytest.raises(TreeError) as caught:
            follow(tree)
        assert caught.value.rule in {"link", "limit"}
        return
    found, copies = follow(tree)
    assert found == expected
    known = {entry.path: entry for entry in tree.entries}
    for entry in found.entries:
        source = known[copies.get(entry.path, entry.path)]
        assert source.kind == entry.kind
        assert source.digest == entry.digest


@given(linked(), _PATTERNS)
@example((Tree((directory("real"), directory("real/tmp"), link("out", "real"))), {}), ["out/tmp"])
@example((Tree((directory("real"), file("real/tmp"), link("out", "real"))), {}), ["out/tmp"])
@example((Tree((directory("real"), file("real/f"), link("build", "real"))), {}), ["build/"])
@example((Tree((directory("d"), link("d/build", ".."), link("d/e", "build"))), {}), ["**/build/"])
def test_excluded_copies_are_left_out(drawn: tuple[Tree, dict[str, bytes]], patterns: list[str]) -> None:
    """A copy whose path is excluded is left out, and following again changes nothing."""
    excludes = compile_excludes(patterns)
    start = Tree(
        tuple(
            entry for entry in drawn[0].entries if not excludes.matches(entry.path, directory=entry.kind == "directory")
        ),
        links="keep",
    )
    try:
        found, copies = follow(start, excludes)
    except TreeError:
        return  # a link that is refused, excluded or not
    assert not [one for one in found.entries if excludes.matches(one.path, directory=one.kind == "directory")]
    assert set(copies) <= {entry.path for entry in found.entries}
    with suppress(TreeError):  # without the excludes a link to what holds it is refused
        everything = follow(start)[0]
        assert found.entries == tuple(
            one for one in everything.entries if not excludes.matches(one.path, directory=one.kind == "directory")
        )


def _named(entries: list[Entry]) -> set[str]:
    """The links that the error names, none if all are followed."""
    try:
        follow(Tree(tuple(entries), links="keep"))
    except TreeError as error:
        return {entry.path for entry in entries if entry.kind == "link" and f"{entry.path}: the link" in str(error)}
    return set()


@given(linked())
def test_refused_links_are_named(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """One error names each; without them only links through them are refused, and at last none."""
    entries = list(drawn[0].entries)
    while bad := _named(entries):
        entries = [entry for entry in entries if entry.path not in bad]
    assert follow(Tree(tuple(entries), links="keep"))[0].entries


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/etc/passwd", "is absolute"),
        ("../x", "leaves the tree"),
        ("a/../../x", "leaves the tree"),
        ("nothing", "leads to nothing"),
        ("a/f/x", "leads to nothing"),
        (".", "a directory that holds it"),
        ("l", "to itself"),
        ("m", "to itself"),
        ("out", "leads to one that is"),
    ],
)
def test_a_link_that_cannot_be_followed(target: str, why: str) -> None:
    """It is refused by name, with its target and the remedy."""
    entries = [directory("a"), file("a/f"), link("l", target), link("m", "l")]
    if target == "out":
        entries.append(link("out", "/etc"))
    with pytest.raises(TreeError, match=why) as caught:
        follow(Tree(tuple(entries), links="keep"))
    assert (caught.value.path, caught.value.rule) == ("l", "link")
    assert "m: the link" in str(caught.value)
    assert "preserve_symlinks=True" in str(caught.value)


def test_the_limit_of_hops() -> None:
    """A chain of as many links as Linux follows is followed, and one more is refused."""
    links = [link(f"l{number:02}", f"l{number + 1:02}") for number in range(MAX_HOPS)]
    tree = Tree((file(f"l{MAX_HOPS:02}", b"x"), *links))
    assert follow(tree)[0].files == MAX_HOPS + 1
    with pytest.raises(TreeError, match="to itself"):
        follow(Tree((*tree.entries, link("k", "l00"))))


def test_a_tree_without_links() -> None:
    """It is returned as it is, with what was omitted."""
    tree = Tree((file("a"),), omitted=(("fifo", "a fifo"),))
    assert follow(tree)[0] is tree
    found, copies = follow(Tree((*tree.entries, link("l", "a")), omitted=tree.omitted))
    assert (found.omitted, copies) == (tree.omitted, {"l": "a"})


def test_the_bound_of_copies() -> None:
    """Links that double a tree at each level are refused at a bound of entries or bytes."""
    entries: list[Entry] = [directory("d00"), file("d00/f", b"x" * 100)]
    for number in range(1, 30):
        here = f"d{number:02}"
        entries += [directory(here), link(f"{here}/one", f"../d{number - 1:02}"), link(f"{here}/two", "one")]
    tree = Tree(tuple(entries))
    with pytest.raises(TreeError, match="more than 5000 entries") as caught:
        follow(tree, entries_free=5000)
    assert caught.value.rule == "limit"
    with pytest.raises(TreeError, match="or 2000 bytes"):
        follow(tree, copies_free=2000)


def test_the_bound_of_visits() -> None:
    """Links that visit one directory again and again, without entries, are refused at a bound."""
    empty = [directory("d"), *(directory(f"d/{number:03}") for number in range(100))]
    dangling = [link(f"d/l{number:03}", "nothing") for number in range(100)]
    aliases = [link(f"m{number:03}", "d") for number in range(100)]
    excludes = compile_excludes(["m*/*"])
    assert len(follow(Tree((*empty, *aliases)), excludes)[0].entries) == 201
    with pytest.raises(TreeError, match="more than 1608 entries") as caught:
        follow(Tree((*empty, *aliases)), excludes, entries_free=100)
    assert caught.value.rule == "limit"
    with pytest.raises(TreeError, match="d/l000: the link leads to nothing") as caught:
        follow(Tree((directory("d"), *dangling, *aliases)), entries_free=100)
    assert caught.value.rule == "link"


@pytest.mark.parametrize("target", ["x/" + "../x/" * 500 + "y", "x/" + "./" * 1000 + "y", "//".join(["x", *"." * 900])])
def test_the_bound_of_names(target: str) -> None:
    """Targets that go up and down are refused at a bound for all links together."""
    tree = Tree((directory("x"), file("x/y"), *(link(f"l{number:03}", target) for number in range(100))), links="keep")
    assert follow(tree)[0].entries
    with pytest.raises(TreeError, match="leave preserve_symlinks=True") as caught:
        follow(tree, entries_free=0)
    assert caught.value.rule == "limit"


def test_the_bound_of_paths() -> None:
    """A copy whose path is too long is refused by name."""
    long = "/".join(["x" * 250] * 16)
    parents = [directory("/".join(["x" * 250] * count)) for count in range(1, 17)]
    assert len(long) < MAX_PATH
    assert follow(Tree((*parents, link("l", "x" * 250))))[0].entries
    deep = "d" * 200
    with pytest.raises(TreeError, match="more than 4093 bytes") as caught:
        follow(
            Tree(
                (*parents, directory(deep), directory(f"{deep}/{deep}"), link(f"{deep}/{deep}/l", f"../../{'x' * 250}"))
            )
        )
    assert caught.value.rule == "limit"
