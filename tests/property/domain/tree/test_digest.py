"""Trees as values: order, rules, digest, and its text."""

from __future__ import annotations

import hashlib
import os
import random
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from senro.domain.errors import TreeError
from senro.domain.tree.paths import MAX_LOOKS, check_path, check_target, link_problem, raw, text
from senro.domain.tree.tree import EMPTY_FILE, Entry, Tree, decode, encode, lost_bits
from tests.lib.archives.files import digest_of, directory, file, link, make_folder, read_folder, trees

TreeWithContents = tuple[Tree, dict[str, bytes]]


@given(trees(), st.randoms(use_true_random=False))
def test_the_order_of_entries(drawn: TreeWithContents, randomness: random.Random) -> None:
    """Entries in any order are the same tree, sorted by the bytes of their paths."""
    tree, _ = drawn
    shuffled = list(tree.entries)
    randomness.shuffle(shuffled)
    assert Tree(tuple(shuffled)) == tree
    assert Tree(tuple(shuffled)).digest == tree.digest
    assert [raw(entry.path) for entry in tree.entries] == sorted(raw(entry.path) for entry in tree.entries)


@given(trees(), trees())
def test_one_digest_one_tree(one: TreeWithContents, other: TreeWithContents) -> None:
    """Two trees have the same digest exactly if they are equal."""
    assert (one[0].digest == other[0].digest) == (one[0] == other[0])


@given(trees(), st.data())
def test_any_change_changes_the_digest(drawn: TreeWithContents, data: st.DataObject) -> None:
    """Content, kind, executable bit, target, name, and any added or removed entry count."""
    tree, _ = drawn
    assume(tree.entries)
    entry = data.draw(st.sampled_from(tree.entries))
    others = tuple(one for one in tree.entries if one != entry)
    changes = []
    if entry.kind == "file":
        changes += [
            replace(entry, executable=not entry.executable),
            replace(entry, digest=digest_of(b"a content that no example has")),
            Entry(entry.path, "directory"),
            link(entry.path, "somewhere"),
        ]
    elif entry.kind == "link":
        changes += [replace(entry, target=entry.target + "x"), Entry(entry.path, "directory"), file(entry.path)]
    if entry.kind != "directory":
        changes.append(replace(entry, path=entry.path + "x"))
        assert Tree(others).digest != tree.digest
    for change in changes:
        if change.path not in {one.path for one in others}:
            assert Tree((*others, change)).digest != tree.digest


@given(trees())
def test_the_text_of_a_tree(drawn: TreeWithContents) -> None:
    """It is decoded to the tree, and its sha256 is the digest."""
    tree, _ = drawn
    assert decode(encode(tree)) == tree
    assert tree.digest == "sha256:" + hashlib.sha256(encode(tree)).hexdigest()


@given(trees(), st.data())
def test_damaged_text(drawn: TreeWithContents, data: st.DataObject) -> None:
    """A text with any byte changed, removed or added is refused, or is another tree."""
    tree, _ = drawn
    damaged = bytearray(encode(tree))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assume(bytes(damaged) != encode(tree))
    try:
        other = decode(bytes(damaged))
    except TreeError:
        return
    assert other != tree
    assert encode(other) == bytes(damaged)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"F 0 sha256:00 1:a\n", "no entry"),
        (b"Z 1:a\n", "no entry"),
        (b"D 1:a", "does not end"),
        (b"D 9:a\n", "does not end"),
        (b"D 01:a\n", "one order or form"),
        (b"D 1:b\nD 1:a\n", "one order or form"),
        (b"L 1:a\n", "no link target"),
        (b"L 1:a 1:b 1:c\n", "does not end"),
        (b"D 4:a/../\n", "empty or"),
    ],
)
def test_an_invalid_text(line: bytes, why: str) -> None:
    """It is refused with its problem."""
    with pytest.raises(TreeError):
        decode(b"senro tree 2\n" + line)
    if why != "empty or":
        with pytest.raises(TreeError, match=why):
            decode(b"senro tree 2\n" + line)


def test_another_version() -> None:
    """A text of another version is refused by its first line."""
    with pytest.raises(TreeError, match="does not begin with"):
        decode(b"senro tree 1\n")


def test_known_digest() -> None:
    """The digest of a known tree never changes: stores and ledgers of all versions have it."""
    tree = Tree(
        (
            file("a", b"hello\n"),
            file("bin/run", b"#!/bin/sh\n", executable=True),
            directory("bin"),
            link("link", "bin/run"),
            directory("\udcff"),
        )
    )
    assert encode(tree) == (
        b"senro tree 2\n"
        b"F 6 sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03 1:a\n"
        b"D 3:bin\n"
        b"X 10 sha256:" + hashlib.sha256(b"#!/bin/sh\n").hexdigest().encode() + b" 7:bin/run\n"
        b"L 4:link 7:bin/run\n"
        b"D 1:\xff\n"
    )
    assert tree.digest == "sha256:" + hashlib.sha256(encode(tree)).hexdigest()
    assert (tree.size, tree.files) == (16, 2)


def test_omitted_entries_do_not_count() -> None:
    """They change neither the tree nor its digest."""
    tree = Tree((file("a"),), omitted=(("fifo", "a fifo"),))
    assert tree == Tree((file("a"),))
    assert tree.digest == Tree((file("a"),)).digest


@pytest.mark.slow  # a folder for each example
@given(trees())
def test_times_and_modes_do_not_count(drawn: TreeWithContents) -> None:
    """The same files with other times and mode bits are the same tree."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "x"
        make_folder(folder, *drawn)
        before = read_folder(folder)
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(path.stat().st_mode ^ 0o046)
                os.utime(path, (1, 1))
        assert read_folder(folder) == before == drawn[0]
        assert read_folder(folder).digest == drawn[0].digest


@given(st.binary(max_size=30))
def test_bytes_as_text(data: bytes) -> None:
    """Any bytes have a text, and the text has these bytes."""
    assert raw(text(data)) == data


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "without a name"),
        ("/a", "absolute"),
        ("a\0b", "NUL"),
        ("..", r"`\.\.`"),
        ("../a", r"`\.\.`"),
        ("a/../b", r"`\.\.`"),
        ("a/..", r"`\.\.`"),
        (".", "empty or"),
        ("./a", "empty or"),
        ("a/.", "empty or"),
        ("a//b", "empty or"),
        ("a/", "empty or"),
        ("\ud800", "no text"),
        ("\udcc3\udca9", "no text"),
    ],
)
def test_an_invalid_path(path: str, why: str) -> None:
    """It is refused with its problem."""
    with pytest.raises(TreeError, match=why) as caught:
        check_path(path)
    assert caught.value.rule == "path"
    with pytest.raises(TreeError, match=why):
        Tree((Entry(path, "directory"),))


@pytest.mark.parametrize("path", ["a", ".a", "...", "a/.b", "a/..b", "é", "\udcff", "a b", "a\nb", "-rf", "a" * 5000])
def test_unusual_paths(path: str) -> None:
    """Odd names are valid."""
    check_path(path)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/a", "absolute"),
        ("../../..", "leaves the tree"),
        ("../../../d/e/a", "leaves the tree"),
        ("a/../../../..", "leaves the tree"),
        ("l/../x", "through another link"),
        ("../e/l/../x", "through another link"),
        ("./l/./..", "through another link"),
    ],
)
def test_an_invalid_link(target: str, why: str) -> None:
    """A link that may leave its tree is refused, with its target."""
    problem = link_problem("d/e/x", target, {"d/e/l"})
    assert why in problem
    assert target in problem


@pytest.mark.parametrize(("target", "why"), [("", "no target"), ("a\0", "NUL"), ("\ud800", "no text")])
def test_an_invalid_target(target: str, why: str) -> None:
    """A target that no link can have is refused, whatever the policy is."""
    with pytest.raises(TreeError, match=why) as caught:
        check_target("d/e/x", target)
    assert (caught.value.path, caught.value.rule) == ("d/e/x", "link")
    with pytest.raises(TreeError, match=why):
        Tree((link("x", target),), links="keep")


def test_refused_links_are_named() -> None:
    """One error names each refused link with its target, and the remedy."""
    entries = (
        link("a", "/etc/passwd"),
        link("b", "../x"),
        link("fine", "a"),
        directory("d"),
        link("d/c", "../a/../../y"),
    )
    with pytest.raises(TreeError) as caught:
        Tree(entries)
    assert (caught.value.path, caught.value.rule) == ("a", "link")
    for words in ("a: the link is absolute (/etc/passwd)", "b: the link leaves the tree (../x)", "d/c: ", "exclude it"):
        assert words in str(caught.value)
    assert "fine" not in str(caught.value)
    assert Tree(entries, links="keep").entries == tuple(sorted(entries, key=lambda entry: entry.path))


def test_many_refused_links_are_counted() -> None:
    """An error names a hundred links and counts the others, since a pod may leave millions."""
    with pytest.raises(TreeError, match="and 150 links more") as caught:
        Tree(tuple(link(f"l{number:03}", "/") for number in range(250)))
    assert len(str(caught.value)) < 10_000


def test_long_links_are_cut_in_messages() -> None:
    """The sentence stays readable; other links are counted."""
    names = [f"{number:03}{'n' * 240}" for number in range(90)]
    with pytest.raises(TreeError, match="links more; point it inside") as caught:
        Tree(tuple(link(name, "/" + "x" * 4000) for name in names))
    words = str(caught.value)
    assert caught.value.path == names[0]
    assert 16_000 < len(words) < 18_000
    told = words.count("the link is absolute")
    assert f"and {90 - told} links more" in words
    assert "x" * 201 not in words


@pytest.mark.parametrize("up", ["../" * 2000, "a/../" * 800, "./" * 1000 + "../", "a/" * 1000 + "../" * 1000])
def test_a_long_target_is_cheap(up: str) -> None:
    """A target of the greatest length needs only a few look-ups."""

    class Counted(set[str]):
        asked = 0

        def __contains__(self, path: object) -> bool:
            self.asked += 1
            return super().__contains__(path)

    links = Counted()
    link_problem("/".join("d" * 2000), up, links)
    assert links.asked <= MAX_LOOKS
    assert "goes up again" in link_problem("d", "a/../" * (MAX_LOOKS + 1), links)
    assert link_problem("d", "a/../" * MAX_LOOKS, links) == ""


def test_the_policy_for_links_does_not_count() -> None:
    """It changes neither tree nor digest, and a text with such a link is decoded if links are kept."""
    entries = (link("a", "/etc"),)
    kept = Tree(entries, links="keep")
    assert decode(encode(kept), links="keep") == kept
    with pytest.raises(TreeError, match="absolute"):
        decode(encode(kept))
    assert Tree((file("a"),), links="keep") == Tree((file("a"),))
    assert Tree((file("a"),), links="keep").digest == Tree((file("a"),)).digest


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (0o777, ""),
        (0o4755, "the setuid bit"),
        (0o2644, "the setgid bit"),
        (0o1644, "the sticky bit"),
        (0o7777, "the setuid and setgid and sticky bits"),
    ],
)
def test_mode_bits_that_are_lost(mode: int, words: str) -> None:
    """Setuid, setgid and sticky are named, permissions are not."""
    assert lost_bits(mode) == words


@pytest.mark.parametrize("target", ["a", "../..", "../../", "../a/../b", "./a", "l", "l/a", "a//b", "\udcff", "..a"])
def test_valid_links(target: str) -> None:
    """A link to anything in its tree, to its root, or to nothing is valid."""
    check_target("d/e/x", target)
    assert link_problem("d/e/x", target, {"d/e/l"}) == ""


@given(st.data())
def test_no_valid_link_leaves_its_tree(data: st.DataObject) -> None:
    """The kernel resolves none of the links of a valid tree to a place outside of it."""
    segments = st.lists(st.sampled_from(["..", "..", ".", "a", "b", "c", "l", "m"]), min_size=1, max_size=6)
    targets = {name: "/".join(data.draw(segments)) for name in ("l", "a/l", "a/b/l", "m", "c/m")}
    while refused := [name for name, target in targets.items() if link_problem(name, target, targets)]:
        for name in refused:
            del targets[name]
    names = list(targets)
    tree = Tree(
        (directory("a"), directory("a/b"), directory("c"), *(link(name, target) for name, target in targets.items()))
    )
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "root"
        make_folder(folder, tree, {})
        for name in names:
            assert (os.path.realpath(folder / name) + "/").startswith(f"{os.path.realpath(folder)}/")


@pytest.mark.parametrize(
    ("entries", "rule"),
    [
        ((file("a"), file("a")), "duplicate"),
        ((file("a"), directory("a")), "duplicate"),
        ((file("a/b"),), "parent"),
        ((file("a"), file("a/b")), "parent"),
        ((link("a", "b"), file("a/b")), "parent"),
        ((Entry("a", "file"),), "digest"),
        ((Entry("a", "file", digest=EMPTY_FILE.upper()),), "digest"),
        ((link("a", "/b"),), "link"),
        ((directory("d"), link("d/up", ".."), link("a", "d/up/..")), "link"),
        ((directory("a"), link("m", "a"), link("a/l", ".."), link("l", "m/l/..")), "link"),
        ((directory("a"), link("m", "a"), link("a/l", ".."), link("l", "m/x/../l/..")), "link"),
    ],
)
def test_an_invalid_tree(entries: tuple[Entry, ...], rule: str) -> None:
    """Entries that no folder can have are refused."""
    with pytest.raises(TreeError) as caught:
        Tree(entries)
    assert caught.value.rule == rule
    assert re.search(r"\w{3}", caught.value.message)
