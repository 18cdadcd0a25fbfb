"""Archives are compared with other tars in both directions; hostile ones are refused."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from senro.domain.errors import TreeError
from senro.domain.tar import reader as reader_module
from senro.domain.tar.admission import IMPLIED_FREE, ArchiveAdmission
from senro.domain.tar.reader import ArchiveReader, Member
from senro.domain.tar.writer import END, archive_length, member_header, padding
from senro.domain.tree.paths import MAX_PATH, raw
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import (
    BUSYBOX_TAR,
    GNU_TAR,
    archive,
    directory,
    file,
    link,
    make_folder,
    members,
    needs_busybox,
    pax,
    read_events,
    read_folder,
    read_tree,
    refusal,
    tar_member,
    trees,
)
from tests.lib.archives.hostile import REFUSED, TAKEN

AWKWARD = Tree(
    (
        directory("d"),
        directory("d/" + "n" * 200),
        directory("p" * 140),
        file("d/" + "n" * 200 + "/" + "é" * 120, b"long"),
        file("p" * 140 + "/" + "q" * 98, b"split"),
        file("p" * 140 + "/" + "q" * 101, b"pax"),
        file("x" * 99, b"hundred and one with its index", executable=True),
        file("x" * 98, b"a hundred"),
        file("b\udcff\udcfe", b"no utf-8"),
        file("c\udcff" + "z" * 250, b"no utf-8, and long"),
        file("a b\nc"),
        link("d/l", "../" + "x" * 98),
        link("long", "d/" + "n" * 200),
        link("raw", "b\udcff\udcfe"),
        link("root", "."),
    )
)
AWKWARD_CONTENTS = {
    "d/" + "n" * 200 + "/" + "é" * 120: b"long",
    "p" * 140 + "/" + "q" * 98: b"split",
    "p" * 140 + "/" + "q" * 101: b"pax",
    "x" * 99: b"hundred and one with its index",
    "x" * 98: b"a hundred",
    "b\udcff\udcfe": b"no utf-8",
    "c\udcff" + "z" * 250: b"no utf-8, and long",
    "a b\nc": b"",
}


def _unpacked_by(command: list[str], data: bytes) -> Tree:
    """The tree that another tar makes of an archive, with the options of the staging script."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [*command, "-x", "-m", "-o", "-f", "-", "-C", folder],
            input=data,
            capture_output=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        assert result.stderr == b""
        return read_folder(Path(folder) / "0") if (Path(folder) / "0").exists() else Tree()


def _packed_by(command: list[str], tree: Tree, contents: dict[str, bytes], *options: str) -> bytes:
    """The archive that another tar makes, with the options of the reading script."""
    with tempfile.TemporaryDirectory() as folder:
        make_folder(Path(folder) / "0", tree, contents)
        return subprocess.run(
            [*command, "-c", *options, "-f", "-", "0"],
            cwd=folder,
            capture_output=True,
            check=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        ).stdout


def _unpacked_by_tarfile(data: bytes) -> Tree:
    entries = []
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as opened:
        for member in opened:
            path = member.name.removeprefix("0/")
            if member.isdir():
                entries.append(directory(path))
            elif member.issym():
                entries.append(link(path, member.linkname))
            else:
                body = opened.extractfile(member)
                assert body is not None
                entries.append(file(path, body.read(), executable=bool(member.mode & 0o100)))
    return Tree(tuple(entries))


@given(trees())
@example((AWKWARD, AWKWARD_CONTENTS))
@example((Tree(), {}))
def test_a_round_trip(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """The domain's reader and Python's tarfile read the tree of which an archive was made."""
    data = archive(*drawn)
    assert read_tree(data) == drawn[0]
    assert _unpacked_by_tarfile(data) == drawn[0]


@given(trees())
@example((Tree(), {}))
def test_no_root_has_a_member(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """The root of a mount is no member: tar would set its mode and time, which only its owner may."""
    with tarfile.open(fileobj=io.BytesIO(archive(*drawn))) as opened:
        names = opened.getnames()
    assert len(names) == len(drawn[0].entries)
    assert all(name.startswith("0/") and name != "0/" for name in names)


@pytest.mark.slow  # a process for each example
@given(trees())
@example((AWKWARD, AWKWARD_CONTENTS))
def test_gnu_tar_reads_it(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """GNU tar unpacks the tree without a message, in the C locale."""
    assert _unpacked_by(GNU_TAR, archive(*drawn)) == drawn[0]


@pytest.mark.slow  # a process for each example
@needs_busybox
@given(trees())
@example((AWKWARD, AWKWARD_CONTENTS))
def test_busybox_tar_reads_it(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """Busybox tar unpacks the tree."""
    assert _unpacked_by(BUSYBOX_TAR, archive(*drawn)) == drawn[0]


@pytest.mark.parametrize("options", [(), ("--format=ustar",), ("--format=posix",), ("--format=v7",)])
def test_gnu_formats_are_read(options: tuple[str, ...]) -> None:
    """An archive of GNU tar in each of its formats gives the tree, long names included."""
    tree, contents = AWKWARD, AWKWARD_CONTENTS
    if options and options != ("--format=posix",):
        tree, contents = Tree((file("short", b"1"), directory("d"), link("d/l", "../short"))), {"short": b"1"}
    assert read_tree(_packed_by(GNU_TAR, tree, contents, *options)) == tree


@pytest.mark.slow  # a process for each example
@given(trees())
@example((AWKWARD, AWKWARD_CONTENTS))
def test_gnu_default_is_read(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """An archive of GNU tar without options gives the tree."""
    assert read_tree(_packed_by(GNU_TAR, *drawn)) == drawn[0]


@pytest.mark.slow  # a process for each example
@needs_busybox
@given(trees())
@example((AWKWARD, AWKWARD_CONTENTS))
def test_busybox_is_read(drawn: tuple[Tree, dict[str, bytes]]) -> None:
    """An archive of busybox tar gives the tree."""
    assert read_tree(_packed_by(BUSYBOX_TAR, *drawn)) == drawn[0]


@given(st.lists(trees(), max_size=3))
@example([(AWKWARD, AWKWARD_CONTENTS)])
def test_the_length_of_an_archive(drawn: list[tuple[Tree, dict[str, bytes]]]) -> None:
    """An archive has exactly the length that was computed before, in whole blocks."""
    data = b"".join(members(tree, contents, index) for index, (tree, contents) in enumerate(drawn)) + END
    assert archive_length((index, tree.entries) for index, (tree, _) in enumerate(drawn)) == len(data)
    assert len(data) % 512 == 0


@given(trees(), st.data())
@example((AWKWARD, AWKWARD_CONTENTS), None)
def test_any_split(drawn: tuple[Tree, dict[str, bytes]], data: st.DataObject | None) -> None:
    """However the bytes are split, the events are the same."""
    whole = archive(*drawn)
    if data is None:
        cuts = list(range(len(whole)))
    else:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read_events(pieces) == read_events([whole])


@given(trees(), st.data())
def test_changed_bytes(drawn: tuple[Tree, dict[str, bytes]], data: st.DataObject) -> None:
    """An archive with changed bytes, with and without correct checksums, gives a tree or a `TreeError`."""
    whole = bytearray(archive(*drawn))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            block = at // 512 * 512
            whole[block + 148 : block + 156] = b" " * 8
            whole[block + 148 : block + 156] = b"%06o\0 " % sum(whole[block : block + 512])
    refusal(bytes(whole))


@given(st.binary(max_size=3000))
def test_any_bytes(data: bytes) -> None:
    """Any bytes give a tree or a `TreeError`."""
    refusal(data)


@given(
    st.lists(
        st.builds(
            tar_member,
            name=st.sampled_from([b"0/a", b"0/a/b", b"0/", b"0/b", b"./0/c", b"0/../x", b"/0/a", b"1/a", b"0/a/b/c"]),
            kind=st.sampled_from([b"0", b"1", b"2", b"5", b"\0", b"3", b"x", b"L", b"K", b"g"]),
            content=st.sampled_from([b"", b"0/a\0", b"x", b"0/a/../b\0", pax(path=b"0/p"), pax(linkpath=b"0/a")]),
            target=st.sampled_from([b"", b"0/a", b"a", b"../x", b"/etc", b"a/../..", b"0/b", b"."]),
        ),
        max_size=8,
    )
)
def test_any_members(pieces: list[bytes]) -> None:
    """Members in any order give a `TreeError` or a valid tree."""
    data = b"".join(pieces) + END
    if refusal(data) is None:
        tree = read_tree(data)
        assert Tree(tree.entries) == tree


def test_a_cut_at_any_block() -> None:
    """It is refused as truncated, also where GNU and busybox tar exit with 0."""
    tree, contents = (
        Tree((directory("d"), file("d/a", b"x" * 700), file("e"), link("l", "e"))),
        {
            "d/a": b"x" * 700,
            "e": b"",
        },
    )
    whole = archive(tree, contents)
    for cut in range(0, len(whole), 512):
        error = refusal(whole[:cut])
        assert error is not None, cut
        assert error.rule == "truncated", cut


@given(st.integers(0, 2_000))
def test_a_cut_at_any_byte(cut: int) -> None:
    """It is refused as truncated."""
    whole = archive(Tree((file("a", b"x" * 700),)), {"a": b"x" * 700})
    if cut < len(whole):
        error = refusal(whole[:cut])
        assert error is not None
        assert error.rule == "truncated"


@pytest.mark.parametrize(
    ("size", "field"),
    [
        (0, b"00000000000\0"),
        (8 * 2**30 - 1, b"77777777777\0"),
        (8 * 2**30, b"\x80" + (8 * 2**30).to_bytes(11, "big")),
        (2**43, b"\x80" + (2**43).to_bytes(11, "big")),
    ],
)
def test_large_sizes(size: int, field: bytes) -> None:
    """A size is octal if it fits, else base-256, and is read back."""
    header = member_header(0, Entry("a", "file", size=size))
    assert header[124:136] == field
    assert padding(size) == 0 or padding(size) == 512 - size % 512
    event = ArchiveReader((0,)).receive_data(header)[0]
    assert isinstance(event, Member)
    assert event.size == size
    assert tarfile.TarInfo.frombuf(header, "utf-8", "strict").size == size


@pytest.mark.parametrize("command", [GNU_TAR, pytest.param(BUSYBOX_TAR, marks=needs_busybox)])
def test_other_tars_read_base_256(command: list[str]) -> None:
    """GNU and busybox tar list a member above 8 GiB with its size."""
    header = member_header(0, Entry("a", "file", size=9 * 2**30))
    listed = subprocess.run([*command, "-t", "-v", "-f", "-"], input=header + END, capture_output=True, check=False)
    assert b" 9663676416 " in listed.stdout


def test_a_header_is_independent_of_the_machine() -> None:
    """It has no owner, no time, and only the executable bit of the mode."""
    for entry, mode in (
        (file("a"), 0o644),
        (file("a", executable=True), 0o755),
        (directory("a"), 0o755),
        (link("a", "b"), 0o777),
    ):
        info = tarfile.TarInfo.frombuf(member_header(0, entry), "utf-8", "strict")
        assert (info.mode, info.uid, info.gid, info.uname, info.gname, info.mtime) == (mode, 0, 0, "", "", 0)


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_archives(name: str) -> None:
    """They are refused by the rule that they violate, in a sentence without control characters."""
    data, rule, *_ = REFUSED[name]
    error = refusal(data)
    assert rule == "io" or (error is not None and error.rule == rule), error
    assert error is None or (len(error.message) > 10 and str(error).isprintable())


@pytest.mark.parametrize("name", TAKEN)
def test_archives_that_only_look_hostile(name: str) -> None:
    """What a file system may contain is accepted, and what a tree cannot keep is named."""
    found = read_tree(TAKEN[name].data)
    assert (found, found.omitted) == (TAKEN[name].tree, TAKEN[name].omitted)


HARMLESS: dict[str, tuple[bytes, Tree]] = {
    "the root": (tar_member("0/", b"5"), Tree()),
    "the root without its slash": (tar_member("0", b"5"), Tree()),
    "the root as a name": (tar_member("./0/", b"5"), Tree()),
    "a dot in front": (tar_member("./0/a"), Tree((file("a"),))),
    "a file of old": (tar_member("0/a", b"\0", magic=bytes(8)), Tree((file("a"),))),
    "a directory of old": (tar_member("0/a/", b"\0", magic=bytes(8)), Tree((directory("a"),))),
    "a contiguous file": (tar_member("0/a", b"7"), Tree((file("a"),))),
    "no parent": (tar_member("0/a/b/c"), Tree((directory("a"), directory("a/b"), file("a/b/c")))),
    "a parent too late": (tar_member("0/a/b") + tar_member("0/a", b"5"), Tree((directory("a"), file("a/b")))),
    "a prefix": (tar_member("b", prefix=b"0/a"), Tree((directory("a"), file("a/b")))),
    "no prefix in GNU's form": (tar_member("0/b", magic=b"ustar  \0", prefix=b"12345"), Tree((file("b"),))),
    "spaces around a number": (tar_member(mode=b" 755 \0\0\0"), Tree((file("a", executable=True),))),
    "a size of zero by PAX": (tar_member("p", b"x", pax(size=b"0")) + tar_member(), Tree((file("a"),))),
    "a comment for all": (tar_member("p", b"g", pax(comment=b"0123")) + tar_member(), Tree((file("a"),))),
    "a long name": (tar_member("p", b"L", b"0/b\0") + tar_member(), Tree((file("b"),))),
    "PAX before a long name": (
        tar_member("p", b"x", pax(path=b"0/c")) + tar_member("p", b"L", b"0/b\0") + tar_member(),
        Tree((file("c"),)),
    ),
    "PAX after a long name": (
        tar_member("p", b"L", b"0/b\0") + tar_member("p", b"x", pax(path=b"0/c")) + tar_member(),
        Tree((file("c"),)),
    ),
    "a PAX name is for one member": (
        tar_member("p", b"x", pax(path=b"0/c")) + tar_member() + tar_member("0/b"),
        Tree((file("a"), file("b"), file("c"))[1:]),
    ),
    "a hard link": (
        tar_member(content=b"x") + tar_member("0/b", b"1", target="0/a"),
        Tree((file("a", b"x"), file("b", b"x"))),
    ),
    "a hard link to a link": (
        tar_member("0/l", b"2", target="a") + tar_member("0/b", b"1", target="./0/l"),
        Tree((link("l", "a"), link("b", "a"))),
    ),
    "a file twice": (tar_member(content=b"x") + tar_member(content=b"yy"), Tree((file("a", b"yy"),))),
    "a directory twice": (tar_member("0/a", b"5") * 2, Tree((directory("a"),))),
    "a link twice": (
        tar_member("0/a", b"2", target="b") + tar_member("0/a", b"2", target="c"),
        Tree((link("a", "c"),)),
    ),
    "a link to itself": (tar_member("0/a", b"2", target="a"), Tree((link("a", "a"),))),
    "a link to the root": (tar_member("0/d/a", b"2", target="../"), Tree((directory("d"), link("d/a", "../")))),
    "zeros to a record's end": (bytes(10240), Tree()),
    "some zeros more": (END + bytes(100), Tree()),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_unusual_archives(name: str) -> None:
    """Unusual archives of honest tars are accepted."""
    data, tree = HARMLESS[name]
    assert read_tree(data + END) == tree


def test_the_count_of_members() -> None:
    """Roots, extension headers and the end are no members."""
    reader = ArchiveReader((0, 1))
    reader.receive_data(tar_member("0/", b"5") + tar_member("1/", b"5") + tar_member("p", b"L", b"1/b\0"))
    assert reader.members == 0
    reader.receive_data(tar_member("1/a") + tar_member("0/a") + END)
    assert reader.members == 2
    reader.receive_eof()


def test_a_hard_link_to_another_tree() -> None:
    """It is refused, since each tree is replaced separately."""
    reader = ArchiveReader((0, 1))
    with pytest.raises(TreeError, match="another tree") as caught:
        reader.receive_data(tar_member("0/a") + tar_member("1/a", b"1", target="0/a"))
    assert caught.value.rule == "hardlink"


def test_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive with more members than memory can hold is refused."""
    monkeypatch.setattr(reader_module, "MAX_MEMBERS", 3)
    with pytest.raises(TreeError, match="more than 3 members") as caught:
        ArchiveReader((0,)).receive_data(b"".join(tar_member(f"0/{number}") for number in range(4)))
    assert caught.value.rule == "limit"


def test_the_bound_of_hard_links() -> None:
    """Hard links become copies, so the bytes that they repeat are bounded."""
    manifest = ArchiveAdmission((0,), copies_free=100)
    manifest.admit(Member(0, "a", "file", size=10))
    manifest.digested(0, "a", "sha256:" + "0" * 64)
    for number in range(10):
        manifest.admit(Member(0, f"b{number}", "hardlink", target="a"))
    with pytest.raises(TreeError, match="more than 100 bytes") as caught:
        manifest.admit(Member(0, "c", "hardlink", target="a"))
    assert caught.value.rule == "limit"
    manifest.admit(Member(0, "d", "file", size=1000))
    manifest.admit(Member(0, "c", "hardlink", target="a"))


def test_the_bound_of_implied_directories() -> None:
    """Directories that are only in names are created, up to a bound."""
    manifest = ArchiveAdmission((0, 1))
    deep = "/".join("d" * (IMPLIED_FREE // 2))
    for place, name in enumerate(("a", "b")):
        assert len(manifest.admit(Member(place, f"{deep}/{name}", "file")).directories) == IMPLIED_FREE // 2
    with pytest.raises(TreeError, match="stand in the names of its members alone") as caught:
        manifest.admit(Member(0, "x/f", "file"))
    assert (caught.value.path, caught.value.rule) == ("x/f", "limit")
    manifest = ArchiveAdmission((0,))
    for number in range(2 * IMPLIED_FREE):
        manifest.admit(Member(0, f"{number}/f", "file"))


def test_the_longest_names() -> None:
    """A path of 4,093 bytes fits with its mount's number; a longer one, or a longer number, is refused."""
    longest = "/".join(["x" * 255] * 15 + ["é" * 125 + "z", "y"])
    assert len(raw(longest)) == MAX_PATH == 4093
    event = ArchiveReader((0,)).receive_data(member_header(0, file(longest)))[0]
    assert isinstance(event, Member)
    assert event.path == longest
    slash = tar_member("p", b"L", raw(f"0/{longest}/\0")) + tar_member("0/a", b"5")  # as GNU and busybox tar end them
    assert read_events([slash + END])[0] == Member(0, longest, "directory")
    for index, path in ((0, longest + "y"), (10, longest)):
        with pytest.raises(TreeError, match="more than 4095 bytes") as caught:
            member_header(index, file(path))
        assert (caught.value.path, caught.value.rule) == (path, "limit")
