"""The differences between two trees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from senro.domain.tree.diff import Change, tree_diff
from senro.domain.tree.paths import raw
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import digest_of, directory, file, link, trees

TreeWithContents = tuple[Tree, dict[str, bytes]]


def applied(tree: Tree, changes: tuple[Change, ...]) -> Tree:
    """The tree with each change applied."""
    entries = {entry.path: entry for entry in tree.entries}
    for change in changes:
        assert entries.pop(change.path, None) == change.before
        if change.after is not None:
            entries[change.path] = change.after
    return Tree(tuple(entries.values()))


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A tree, and another one with a few edits."""
    tree, _ = draw(trees())
    entries = {entry.path: entry for entry in tree.entries}
    for path in draw(st.lists(st.sampled_from(sorted(entries)), max_size=4, unique=True)) if entries else ():
        entry = entries.get(path)
        if entry is None:
            continue
        edits: list[Entry | None] = [None, Entry(path, "directory")]
        if entry.kind == "file":
            edits += [replace(entry, executable=not entry.executable), file(path, b"edited", executable=True)]
            edits.append(file(path, b"edited", executable=entry.executable))
        if entry.kind == "link":
            edits += [link(path, entry.target + "x"), file(path)]
        edit = draw(st.sampled_from(edits))
        below = [other for other in entries if other.startswith(f"{path}/")]
        if edit is None or edit.kind != "directory":
            for other in below:
                del entries[other]
        if edit is None:
            del entries[path]
        else:
            entries[path] = edit
    return tree, Tree(tuple(entries.values()))


@given(st.one_of(neighbours(), st.tuples(trees(), trees()).map(lambda drawn: (drawn[0][0], drawn[1][0]))))
def test_the_changes_make_the_other_tree(pair: tuple[Tree, Tree]) -> None:
    """Applied to one tree, the changes give the other; there are none exactly for equal trees."""
    before, after = pair
    changes = tree_diff(before, after)
    assert applied(before, changes) == after
    assert (not changes) == (before == after)
    assert [raw(change.path) for change in changes] == sorted({raw(change.path) for change in changes})


@given(trees())
def test_a_tree_does_not_differ_from_itself(drawn: TreeWithContents) -> None:
    """There are no changes between a tree and itself."""
    assert tree_diff(drawn[0], drawn[0]) == ()


@given(neighbours())
def test_the_reverse_diff(pair: tuple[Tree, Tree]) -> None:
    """Each change is reversed: what was added was removed, the rest is the same."""
    before, after = pair
    turned = {"added": "removed", "removed": "added"}
    there, back = tree_diff(before, after), tree_diff(after, before)
    assert [Change(one.path, one.after, one.before) for one in there] == list(back)
    assert [tuple(turned.get(what, what) for what in one.what) for one in there] == [one.what for one in back]


@given(neighbours())
def test_what_differs(pair: tuple[Tree, Tree]) -> None:
    """Each change has at least one value, and for a file exactly what differs of content and mode."""
    for change in tree_diff(*pair):
        assert change.what
        if change.before is not None and change.after is not None and change.before.kind == change.after.kind == "file":
            assert ("content" in change.what) == (change.before.digest != change.after.digest)
            assert ("mode" in change.what) == (change.before.executable != change.after.executable)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (None, file("a"), ("added",)),
        (file("a"), None, ("removed",)),
        (file("a"), directory("a"), ("type",)),
        (directory("a"), link("a", "b"), ("type",)),
        (link("a", "b"), link("a", "c"), ("target",)),
        (file("a"), file("a", b"x"), ("content",)),
        (file("a"), file("a", executable=True), ("mode",)),
        (file("a"), file("a", b"x", executable=True), ("content", "mode")),
    ],
)
def test_each_kind_of_change(before: Entry | None, after: Entry | None, what: tuple[str, ...]) -> None:
    """Each kind of change has its value, also for contents of the same size."""
    trees_ = [Tree(() if entry is None else (entry,)) for entry in (before, after)]
    (change,) = tree_diff(*trees_)
    assert (change.path, change.what) == ("a", what)


def test_contents_of_one_size() -> None:
    """The digest distinguishes contents of the same size."""
    (change,) = tree_diff(Tree((file("a", b"1"),)), Tree((file("a", b"2"),)))
    assert change.after is not None
    assert (change.what, change.after.digest) == (("content",), digest_of(b"2"))
