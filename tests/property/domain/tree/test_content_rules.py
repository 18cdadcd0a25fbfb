"""How the rules of a workspace apply to an archive: excludes, links, omitted entries, hard links."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.adapters.fs.walk import walk
from senro.domain.errors import TreeError
from senro.domain.tar.admission import ArchiveAdmission
from senro.domain.tar.reader import Member
from senro.domain.tar.writer import END
from senro.domain.tree.content_rules import KEEP_EVERYTHING, ContentRules
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import (
    BUSYBOX_TAR,
    GNU_TAR,
    digest_of,
    directory,
    file,
    link,
    make_folder,
    needs_busybox,
    read_tree,
    run_to_end,
    tar_member,
    trees,
)

OUT = ContentRules(exclude=("**/out", "*.o"))


def kept(*pieces: bytes, rules: ContentRules = OUT) -> Tree:
    return read_tree(b"".join(pieces) + END, rules)


def test_excluded_entries_are_left_out() -> None:
    """Files, directories with their content, and links that match are not in the tree."""
    tree = kept(
        tar_member("0/a", content=b"a"),
        tar_member("0/main.o", content=b"o"),
        tar_member("0/d/out", b"5"),
        tar_member("0/d/out/x/y", content=b"y"),
        tar_member("0/out", b"2", target="a"),
        tar_member("0/e/main.o", content=b"kept: not at the top"),
    )
    assert [entry.path for entry in tree.entries] == ["a", "d", "e", "e/main.o"]


def test_excluded_entries_violate_no_rule_of_content() -> None:
    """An excluded link that leaves, fifo or setuid bit does not matter."""
    tree = kept(
        tar_member("0/out", b"5"),
        tar_member("0/out/etc", b"2", target="/etc"),
        tar_member("0/out/up", b"2", target="../../.."),
        tar_member("0/out/fifo", b"6"),
        tar_member("0/out/su", mode=b"0004755\0"),
        tar_member("0/out/su2", b"1", target="0/out/su", mode=b"0004755\0"),
        tar_member("0/out/fifo2", b"1", target="0/out/fifo"),
    )
    assert (tree, tree.omitted) == (Tree(), ())


@pytest.mark.parametrize(
    ("rule", "pieces"),
    [
        ("path", [tar_member("0/out/../../x")]),
        ("parent", [tar_member("0/out", b"2", target="/etc"), tar_member("0/out/passwd", content=b"x")]),
        ("parent", [tar_member("0/out/f"), tar_member("0/out/f/x")]),
        ("parent", [tar_member("0/f", b"6"), tar_member("0/f/x")]),
        ("parent", [tar_member("0/f", b"6"), tar_member("0/f/x", b"3")]),
        ("duplicate", [tar_member("0/out/f"), tar_member("0/out/f", b"5")]),
        ("duplicate", [tar_member("0/f"), tar_member("0/f", b"6")]),
        ("duplicate", [tar_member("0/f", b"6"), tar_member("0/f")]),
        ("hardlink", [tar_member("0/out/f", b"1", target="0/nothing")]),
        ("hardlink", [tar_member("0/out/f", b"1", target="0/out/f")]),
        ("hardlink", [tar_member("0/d", b"5"), tar_member("0/out/f", b"1", target="0/d")]),
        ("duplicate", [tar_member("0/a"), tar_member("0/out", b"1", target="0/a"), tar_member("0/a", content=b"x")]),
        ("size", [tar_member("0/f", b"6", b"content")]),
        ("link", [tar_member("0/out/l", b"2")]),
    ],
)
def test_excluded_members_must_be_safe(rule: str, pieces: list[bytes]) -> None:
    """The rules that keep an archive in its folders hold for every member."""
    with pytest.raises(TreeError) as caught:
        kept(*pieces)
    assert caught.value.rule == rule


def test_a_hard_link_to_an_excluded_file() -> None:
    """It has the content of the file, also through other links."""
    tree = kept(
        tar_member("0/out/first", content=b"content", mode=b"0000755\0"),
        tar_member("0/out/second", b"1", target="0/out/first"),
        tar_member("0/third", b"1", target="0/out/second"),
        tar_member("0/fourth.o", b"1", target="0/third"),
        tar_member("0/fifth", b"1", target="0/fourth.o"),
        tar_member("0/out/l", b"2", target="third"),
        tar_member("0/out/m", b"1", target="0/out/l"),
        tar_member("0/l", b"1", target="0/out/m"),
    )
    content = b"content"
    assert tree == Tree(
        (file("third", content, executable=True), file("fifth", content, executable=True), link("l", "third"))
    )


def test_an_excluded_hard_link_again_as_a_file() -> None:
    """Of a name that comes twice the later member counts, also for its hard links."""
    tree = kept(
        tar_member("0/a", content=b"one"),
        tar_member("0/out", b"1", target="0/a"),
        tar_member("0/out", content=b"two"),
        tar_member("0/b", b"1", target="0/out"),
    )
    assert tree == Tree((file("a", b"one"), file("b", b"two")))


def test_omitted_entries_are_named() -> None:
    """Fifos, devices, their hard links and mode bits are named in order; a directory's setgid bit is normal."""
    tree = kept(
        tar_member("0/z", b"6"),
        tar_member("0/d", b"5", mode=b"0002755\0"),
        tar_member("0/d/c", b"3"),
        tar_member("0/d/b", b"4"),
        tar_member("0/d/b", b"4"),
        tar_member("0/a\x1b", b"1", target="0/z"),
        tar_member("0/su", content=b"x", mode=b"0006755\0"),
        tar_member("0/t", b"1", target="0/su", mode=b"0006755\0"),
    )
    assert tree == Tree((directory("d"), file("su", b"x", executable=True), file("t", b"x", executable=True)))
    assert tree.omitted == (
        (r"a\x1b", "a fifo"),
        ("d/b", "a block device"),
        ("d/c", "a character device"),
        ("su", "the setuid and setgid bits"),
        ("t", "the setuid and setgid bits"),
        ("z", "a fifo"),
    )


def test_refused_links_are_named() -> None:
    """One error names every refused link, and none that is excluded."""
    members = [
        tar_member("0/a", b"2", target="/etc/passwd"),
        tar_member("0/d/b", b"2", target="../../1/x"),
        tar_member("0/out", b"2", target="/root"),
        tar_member("0/fine", b"2", target="d/b"),
    ]
    with pytest.raises(TreeError) as caught:
        kept(*members)
    assert caught.value.rule == "link"
    assert "a: the link is absolute (/etc/passwd)" in str(caught.value)
    assert "d/b: the link leaves the tree (../../1/x)" in str(caught.value)
    assert "/root" not in str(caught.value)
    assert "fine" not in str(caught.value)


def test_links_are_kept() -> None:
    """With `links="keep"` they stay as they are, and writing through one is refused all the same."""
    members = [tar_member("0/a", b"2", target="/etc"), tar_member("0/b", b"2", target="../..")]
    assert kept(*members, rules=KEEP_EVERYTHING).entries == (link("a", "/etc"), link("b", "../.."))
    with pytest.raises(TreeError) as caught:
        kept(*members, tar_member("0/a/passwd", content=b"x"), rules=KEEP_EVERYTHING)
    assert caught.value.rule == "parent"


def test_links_are_followed() -> None:
    """With `follow` each is a copy of its target; a link to an excluded entry leads to nothing."""
    members = [
        tar_member("0/d/f", content=b"f"),
        tar_member("0/l", b"2", target="d"),
        tar_member("0/d/m", b"2", target="f"),
    ]
    follow = ContentRules(exclude=("**/out",), follow=True)
    expected = Tree((directory("d"), directory("l"), *(file(path, b"f") for path in ("d/f", "d/m", "l/f", "l/m"))))
    assert kept(*members, rules=follow) == expected
    with pytest.raises(TreeError, match="n: the link leads to nothing") as caught:
        kept(*members, tar_member("0/out", content=b""), tar_member("0/n", b"2", target="out"), rules=follow)
    assert caught.value.rule == "link"


def test_an_excluded_copy_is_left_out() -> None:
    """A copy in place of a link is left out if a pattern matches its path there."""
    members = [
        tar_member("0/real/tmp/f", content=b"f"),
        tar_member("0/out", b"2", target="real"),
        tar_member("0/build", b"2", target="real"),
    ]
    follow = ContentRules(exclude=("out/tmp", "build/"), follow=True)
    expected = Tree((directory("out"), directory("real"), directory("real/tmp"), file("real/tmp/f", b"f")))
    assert kept(*members, rules=follow) == expected


@pytest.mark.parametrize("follow", [False, True])
def test_many_links_are_checked_in_slices(*, follow: bool) -> None:
    """The work between two yields is bounded."""

    def slices(count: int) -> int:
        manifest = ArchiveAdmission((0,), rules={0: ContentRules(follow=follow)})
        manifest.admit(Member(0, "f", "file"))
        manifest.digested(0, "f", digest_of(b""))
        for number in range(count):
            manifest.admit(Member(0, f"l{number}", "link", target="f"))
        return sum(1 for _ in manifest.contents())

    assert slices(8000) > slices(10) + 3


def test_what_must_be_removed() -> None:
    """The outermost excluded entries, without links, which are created at the end."""
    manifest = ArchiveAdmission((0, 1), rules={0: OUT})
    for member in (
        Member(0, "out", "directory"),
        Member(0, "out/x", "directory"),
        Member(0, "out/x/l", "link", target="/"),
        Member(0, "d/out", "link", target="/"),
        Member(1, "out", "directory"),
    ):
        manifest.admit(member)
    manifest.admit(Member(0, "a.o", "file"))
    manifest.digested(0, "a.o", digest_of(b""))
    contents = run_to_end(manifest.contents())
    assert sorted(contents[0].excluded) == ["a.o", "out"]
    assert contents[0].tree == Tree((directory("d"),))
    assert (contents[1].excluded, contents[1].tree) == ((), Tree((directory("out"),)))


_PATTERNS = st.lists(
    st.sampled_from(["a", "**/a", "b/", "**/c", "**/*.txt", "x*", "a/**", "**/*", "?", "**/b/**"]), max_size=3
)


def walked(folder: Path, rules: ContentRules) -> Tree:
    """The tree of a walk of this machine, without an event loop."""
    return run_to_end(walk(str(folder), rules))


@pytest.mark.slow  # a process for each example
@pytest.mark.parametrize("command", [GNU_TAR, pytest.param(BUSYBOX_TAR, marks=needs_busybox)], ids=["gnu", "busybox"])
@given(drawn=trees(), patterns=_PATTERNS, randomness=st.randoms(use_true_random=False), keep=st.booleans())
def test_an_archive_and_a_walk_give_the_same_tree(
    command: list[str],
    drawn: tuple[Tree, dict[str, bytes]],
    patterns: list[str],
    randomness: random.Random,
    *,
    keep: bool,
) -> None:
    """A folder with entries of every kind is the same tree, walked here or packed in a pod."""
    rules = ContentRules(exclude=tuple(patterns), links="keep" if keep else "refuse")
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "0"
        make_folder(folder, *drawn)
        spice(folder, drawn[0], randomness)
        expected = walked(folder, rules)
        data = subprocess.run(
            [*command, "-c", "-f", "-", "0"],
            cwd=top,
            capture_output=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        ).stdout
    found = read_tree(data, rules)
    assert found == expected
    assert found.omitted == expected.omitted


def spice(folder: Path, tree: Tree, randomness: random.Random) -> None:
    """Adds hard links, fifos with a second name, and mode bits to a folder."""
    places = [folder, *(folder / entry.path for entry in tree.entries if entry.kind == "directory")]
    for entry in tree.entries:
        if entry.kind == "file" and randomness.random() < 0.5:
            name = randomness.choice(["a", "c", "x-hard", "z"])
            place = randomness.choice(places) / name
            if not os.path.lexists(place):
                os.link(folder / entry.path, place)
        elif entry.kind == "file" and randomness.random() < 0.3:
            (folder / entry.path).chmod(randomness.choice([0o4755, 0o2600, 0o1644]))
    for name in ("a", "fifo"):
        place = randomness.choice(places) / name
        if randomness.random() < 0.5 and not os.path.lexists(place):
            os.mkfifo(place)
            os.link(place, place.with_name(f"{name}-again"))
