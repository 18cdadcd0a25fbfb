"""Trees, folders and archives for the tests of domain.tree, domain.tar and adapters.fs."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TypeVar, cast

import pytest
from hypothesis import strategies as st

from senro.domain.errors import TreeError
from senro.domain.tar.admission import ArchiveAdmission
from senro.domain.tar.reader import ArchiveReader, Data, EndOfArchive, EndOfMember, Member
from senro.domain.tar.writer import END, member_header
from senro.domain.tar.writer import padding as padding_of
from senro.domain.tree.content_rules import ContentRules
from senro.domain.tree.excludes import Excludes
from senro.domain.tree.follow_links import ResolvedTree, resolve_links
from senro.domain.tree.paths import raw
from senro.domain.tree.tree import Entry, Tree

T = TypeVar("T")

Contents = Mapping[str, bytes]
"""The contents of the files of a tree, by path."""

BUSYBOX = shutil.which("busybox")
needs_busybox = pytest.mark.skipif(BUSYBOX is None, reason="no busybox on PATH")
GNU_TAR = ["tar"]
BUSYBOX_TAR = [BUSYBOX or "busybox", "tar"]


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def file(path: str, content: bytes = b"", *, executable: bool = False) -> Entry:
    return Entry(path, "file", executable=executable, size=len(content), digest=digest_of(content))


def directory(path: str) -> Entry:
    return Entry(path, "directory")


def link(path: str, target: str) -> Entry:
    return Entry(path, "link", target=target)


def run_to_end(work: Generator[None, None, T]) -> T:
    """Runs a generator that yields between slices of work, and returns its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast("T", end.value)


def follow(tree: Tree, excludes: Excludes | None = None, **bounds: int) -> ResolvedTree:
    """Runs `resolve_links` without a pause."""
    return run_to_end(resolve_links(tree, excludes, **bounds))


def _segments() -> st.SearchStrategy[str]:
    """Draws path segments: short and long ones, any character, bytes that are not UTF-8."""
    plain = st.sampled_from(
        ["a", "b", "c", "a.txt", "-rf", "with space", "é", "日本", "new\nline", "'q'", "\\", "." * 3]
    )
    long = st.builds(lambda letter, count: letter * count, st.sampled_from("xyz"), st.integers(90, 255))
    anything = st.binary(min_size=1, max_size=40).map(
        lambda data: data.replace(b"/", b"_").replace(b"\0", b"_").decode("utf-8", "surrogateescape")
    )
    return st.one_of(plain, plain, long, anything).filter(lambda name: name not in {".", ".."})


@st.composite
def trees(draw: st.DrawFn, segments: st.SearchStrategy[str] | None = None) -> tuple[Tree, dict[str, bytes]]:
    """Draws a tree and the contents of its files. `segments` draws the names."""
    named = _segments() if segments is None else segments
    directories = [""]
    entries: dict[bytes, Entry] = {}
    contents: dict[str, bytes] = {}
    for _ in range(draw(st.integers(0, 12))):
        parent = draw(st.sampled_from(directories))
        path = f"{parent}/{draw(named)}" if parent else draw(named)
        if raw(path) in entries or len(raw(path)) > 1000:
            continue
        kind = draw(st.sampled_from(["file", "file", "directory", "link"]))
        if kind == "directory":
            directories.append(path)
            entries[raw(path)] = directory(path)
        elif kind == "file":
            content = draw(st.one_of(st.binary(max_size=30), st.sampled_from([bytes(512), b"x" * 513, b"y" * 2000])))
            contents[path] = content
            entries[raw(path)] = file(path, content, executable=draw(st.booleans()))
        else:
            up = draw(st.integers(0, path.count("/")))
            target = "../" * up + draw(named)
            entries[raw(path)] = link(path, target)
    return Tree(tuple(entries.values())), contents


def make_folder(folder: Path, tree: Tree, contents: Contents) -> None:
    """Writes the tree to disk, with modes that do not count in a digest."""
    folder.mkdir(exist_ok=True)
    for entry in tree.entries:
        path = folder / entry.path
        if entry.kind == "directory":
            path.mkdir()
        elif entry.kind == "link":
            path.symlink_to(entry.target)
        else:
            path.write_bytes(contents[entry.path])
            path.chmod(0o711 if entry.executable else 0o622)


def read_folder(folder: Path) -> Tree:
    """Returns the folder as a tree, read in the simplest way, as a reference for `FolderTrees.walk` and tar."""
    return Tree(read_folder_as_is(folder).entries)


def read_folder_as_is(folder: Path) -> Tree:
    """Does the same as `read_folder`, without checking where links lead to."""
    entries = []
    for top, names, files, opened in os.fwalk(folder):
        for name in names + files:
            path = str((Path(top) / name).relative_to(folder))
            mode = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                entries.append(link(path, os.readlink(name, dir_fd=opened)))
            elif stat.S_ISDIR(mode):
                entries.append(directory(path))
            else:
                content = (Path(top) / name).read_bytes()
                entries.append(file(path, content, executable=bool(mode & 0o100)))
    return Tree(tuple(entries), links="keep")


def names(folder: Path) -> list[str]:
    """Returns the sorted names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def mode_of(path: Path | str) -> int:
    """Returns the permission bits."""
    return stat.S_IMODE(Path(path).stat().st_mode)


def exists(path: Path | str) -> bool:
    """Whether the path exists; a broken link does."""
    return Path(path).exists()


def archive(tree: Tree, contents: Contents, index: int = 0) -> bytes:
    """Returns the archive of one tree, written by domain.tar."""
    return members(tree, contents, index) + END


def members(tree: Tree, contents: Contents, index: int = 0) -> bytes:
    pieces = []
    for entry in tree.entries:
        pieces.append(member_header(index, entry))
        if entry.kind == "file":
            pieces += [contents[entry.path], bytes(padding_of(entry.size))]
    return b"".join(pieces)


Happening = Member | bytes | EndOfMember | EndOfArchive


def read_events(pieces: list[bytes], indexes: tuple[int, ...] = (0,)) -> list[Happening]:
    """Returns the reader's events for an archive in `pieces`, with adjacent pieces of content joined."""
    reader = ArchiveReader(indexes)
    events: list[Happening] = []
    for piece in pieces:
        for event in reader.receive_data(piece):
            if not isinstance(event, Data):
                events.append(event)
            elif isinstance(events[-1], bytes):
                events[-1] += bytes(event.data)
            else:
                events.append(bytes(event.data))
    reader.receive_eof()
    return events


def read_tree(data: bytes, rules: ContentRules | None = None) -> Tree:
    """Returns the tree with index 0 of an archive, by the reader and the admission of domain.tar."""
    manifest = ArchiveAdmission((0,), rules={} if rules is None else {0: rules})
    contents: dict[str, bytes] = {}
    current = ""
    for event in read_events([data]):
        if isinstance(event, Member):
            placement = manifest.admit(event)
            current = event.path
            if placement.copy_of:
                contents[current] = contents[placement.copy_of]
            elif event.kind == "file":
                contents[current] = b""
        elif isinstance(event, bytes):
            contents[current] = event
        elif isinstance(event, EndOfMember):
            manifest.digested(0, current, digest_of(contents[current]))
    return run_to_end(manifest.contents())[0].tree


def refusal(data: bytes) -> TreeError | None:
    """Returns the rule by which reader and admission refuse an archive; None if they accept it."""
    try:
        read_tree(data)
    except TreeError as error:
        return error
    return None


def tar_member(
    name: bytes | str = b"0/a",
    kind: bytes = b"0",
    content: bytes = b"",
    *,
    target: bytes | str = b"",
    mode: bytes = b"0000644\0",
    size: bytes | None = None,
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    checksum: bytes | None = None,
) -> bytes:
    """Returns a member with any fields, and a valid checksum unless another one is given."""
    name = raw(name) if isinstance(name, str) else name
    target = raw(target) if isinstance(target, str) else target
    length = b"%011o\0" % len(content) if size is None else size
    front = name.ljust(100, b"\0") + mode + b"0000000\0" * 2 + length + b"00000000000\0"
    back = kind + target.ljust(100, b"\0") + magic + bytes(80) + prefix.ljust(167, b"\0")
    seal = b"%06o\0 " % (sum(front) + sum(back) + 256) if checksum is None else checksum
    block = front + seal + back
    assert len(block) == 512
    return block + content + bytes(-len(content) % 512)


def pax(**records: bytes) -> bytes:
    """Returns the body of a PAX header."""
    body = b""
    for keyword, value in records.items():
        rest = b" " + keyword.encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length = len(str(length)) + len(rest)
        body += str(length).encode() + rest
    return body
