"""Walks a folder of this machine, and changes it to comply with its content rules."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import TYPE_CHECKING

from senro.adapters.fs.copying import create_copies
from senro.adapters.fs.editing import EditableDirectory
from senro.adapters.fs.open_directory import READ, OpenDirectory
from senro.adapters.fs.staged_directory import StagedDirectory, discarding
from senro.adapters.fs.work import PIECE, tree_errors
from senro.domain.errors import TreeError
from senro.domain.text.printable import printable
from senro.domain.tree.excludes import compile_excludes
from senro.domain.tree.follow_links import resolve_links
from senro.domain.tree.paths import MAX_PATH, raw
from senro.domain.tree.tree import EXECUTABLE, Entry, Tree, lost_bits

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from senro.domain.tree.content_rules import ContentRules

_SPECIAL = {
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def walk(folder: str, rules: ContentRules) -> Generator[None, None, Tree]:
    """See `ports.trees.Trees.walk`. Yields after each file, and within a large one after each piece."""
    with tree_errors(folder):
        root = OpenDirectory(folder)
    with root:
        return (yield from _Walk(root, rules).run())


def prune(folder: str, rules: ContentRules) -> Generator[None, None, Tree]:
    """See `ports.trees.Trees.prune`. Changes nothing before the whole folder was walked and all copies made."""
    with tree_errors(folder):
        root = EditableDirectory(folder)
    with root:
        walked = _Walk(root, rules)
        before = yield from walked.run()
        tree, copies = (yield from resolve_links(before, walked.excludes)) if rules.follow else (before, {})
        links = [entry.path for entry in before.entries if rules.follow and entry.kind == "link"]
        if links:
            yield from _replace_links(links, folder, root, tree, copies)
        for path in (*walked.excluded, *walked.special):
            yield from root.remove_tree(path)
        for path in walked.special_modes:
            root.clear_special_bits(path)
    return tree


def _replace_links(
    links: Sequence[str], folder: str, root: EditableDirectory, tree: Tree, copies: Mapping[str, str]
) -> Generator[None, None, None]:
    """Replace the links by copies of their targets. Nothing is changed before all copies exist.

    Replacing a link by a file does not change where other links lead. Replacing one by a directory may, if another link
    leads through it upwards or to an excluded entry. So the directories are replaced without a yield in between.
    """
    built = StagedDirectory(os.path.realpath(folder))
    with discarding(built):
        yield from create_copies(built, tree, copies, root)
        files = {entry.path for entry in tree.entries if entry.kind == "file"}
        for path in links:
            if path in files:
                root.replace_from(path, built)
                yield
        for path in links:
            if path not in copies:
                root.remove(path)
            elif path not in files:
                root.replace_from(path, built)


def read_file(folder: str, name: str, limit: int) -> Generator[None, None, bytes | None]:
    """See `ports.trees.Trees.read`."""
    with tree_errors(folder):
        root = OpenDirectory(folder)
    try:
        yield
        with root, os.fdopen(root.open(name, READ | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TreeError(name, "unreadable", "it is not a regular file; replace or remove it")
            return file.read(limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TreeError(name, "unreadable", f"it cannot be read as a file: {error.strerror}") from error


class _Walk:
    """One walk of an open folder.

    `excludes`: the compiled patterns.
    `excluded`, `special`: the paths of excluded entries, and of sockets, fifos and devices.
    `special_modes`: the paths of files with mode bits that a snapshot does not carry.
    """

    def __init__(self, root: OpenDirectory, rules: ContentRules) -> None:
        self._root = root
        self._rules = rules
        self.excludes = compile_excludes(rules.exclude)
        self.excluded: list[str] = []
        self.special: list[str] = []
        self.special_modes: list[str] = []

    def run(self) -> Generator[None, None, Tree]:
        entries: list[Entry] = []
        omitted: list[tuple[str, str]] = []
        waiting = [""]
        while waiting:
            directory = waiting.pop()
            for path, status in self._list(directory):
                mode = status.st_mode
                if stat.S_ISDIR(mode):
                    entries.append(Entry(path, "directory"))
                    waiting.append(path)
                elif stat.S_ISREG(mode):
                    digest = yield from _hash(self._root, path, status)
                    executable = bool(mode & EXECUTABLE)
                    entries.append(Entry(path, "file", executable=executable, size=status.st_size, digest=digest))
                    if lost := lost_bits(mode):
                        omitted.append((printable(path), lost))
                        self.special_modes.append(path)
                elif stat.S_ISLNK(mode):
                    entries.append(_link(self._root, path))
                else:
                    omitted.append((printable(path), _SPECIAL.get(stat.S_IFMT(mode), "of an unknown kind")))
                    self.special.append(path)
                yield
        links = "keep" if self._rules.follow else self._rules.links
        return Tree(tuple(entries), omitted=tuple(sorted(omitted)), links=links)

    def _list(self, directory: str) -> list[tuple[str, os.stat_result]]:
        """The entries of the directory that are not excluded. Ignores those that vanish meanwhile."""
        found = []
        try:
            with os.scandir(self._root.directory(directory)) as listing:
                for item in listing:
                    path = f"{directory}/{item.name}" if directory else item.name
                    if self.excludes.matches(path, directory=item.is_dir(follow_symlinks=False)):
                        self.excluded.append(path)
                        continue
                    try:
                        found.append((path, item.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        continue
        except OSError as error:
            raise _unreadable(directory or ".", error) from error
        for path, _ in found:
            # A code point has at most 4 bytes, so that most paths need not be encoded.
            if len(path) * 4 > MAX_PATH and len(raw(path)) > MAX_PATH:
                raise TreeError(path, "limit", f"the path has more than {MAX_PATH} bytes; shorten it or exclude it")
        return found


def _hash(root: OpenDirectory, path: str, status: os.stat_result) -> Generator[None, None, str]:
    """The digest of the file. Raises `TreeError` (rule `changed`) if it differs from `status` afterwards."""
    try:
        fd = root.open(path, READ | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        digest = hashlib.sha256()
        left = status.st_size
        while left > 0:
            data = os.read(fd, min(left, 8 * PIECE))
            if not data:
                break
            digest.update(data)
            left -= len(data)
            if left:
                yield
        after = os.fstat(fd)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    if left or _identity(after) != _identity(status):
        raise TreeError(path, "changed", "the file changed while it was read; something still writes to it")
    return "sha256:" + digest.hexdigest()


def _link(root: OpenDirectory, path: str) -> Entry:
    try:
        parent, name = root.parent(path)
        target = os.readlink(name, dir_fd=parent)
    except OSError as error:
        raise _unreadable(path, error) from error
    return Entry(path, "link", target=target)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _unreadable(path: str, error: OSError) -> TreeError:
    if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR}:
        return TreeError(path, "changed", "it vanished or became something else while the folder was read")
    return TreeError(path, "unreadable", f"it cannot be read: {error.strerror}; make it readable or exclude it")
