"""A directory that is built next to the one it will replace, and swapped in by rename.

For a destination `/runs/x/ws` the new tree is built in `/runs/x/.ws.senro-<random>.new`, with mode 0700. The swap
renames the old tree to `/runs/x/.ws.senro-<random>.old` and the new one to `/runs/x/ws`, then removes the old one. A
process that is killed between the two renames leaves no `ws` and both siblings with the same random part: `.old` is
then the complete previous content, and renaming it back repairs the destination. At any other moment `ws` is complete
and siblings are leftovers that may be removed.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from senro.adapters.fs.removal import remove_directory, remove_folder
from senro.adapters.fs.work import io_error, tree_errors
from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = 0o755
_NAME_BYTES = 200  # NAME_MAX is 255 bytes, which leaves room for the suffix of a sibling


def _creation_error(path: str, error: OSError) -> TreeError:
    """The error for an entry that cannot be created.

    Each name of the tree is created once, so an existing entry means that the file system treats two names as equal.
    """
    if not isinstance(error, FileExistsError):
        return io_error(path, error)
    return TreeError(
        path,
        "case",
        "this machine's file system treats it and another name as equal: they differ in case or in Unicode form alone; "
        "rename one of them, or run on a file system that distinguishes them",
    )


class StagedDirectory:
    """The new tree of one destination, while it is built.

    Paths are relative to the open directory `root`; nobody else writes below it.

    Call `discard` on every path: before `swap` it removes the new tree, after `swap` the old one.
    """

    def __init__(self, destination: str) -> None:
        # A destination that is a link is refused (`_mode`), not followed. Its parents are resolved: with `..` in its
        # path a directory may contain itself, and could be renamed away but not back.
        place = Path(destination).absolute()
        if place.name in {"", ".."}:
            raise TreeError(destination, "destination", "it is the root, or ends in `..`; name a folder")
        parent = Path(os.path.realpath(place.parent))
        self.destination = parent / place.name
        stem = secrets.token_hex(6)
        self.built, self.old = sibling(self.destination, stem, "new"), sibling(self.destination, stem, "old")
        with tree_errors(destination):
            parent.mkdir(parents=True, exist_ok=True)
            self._mode = _mode(self.destination)
            self.built.mkdir(mode=0o700)
            try:
                self.root = os.open(self.built, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            except BaseException:
                self.built.rmdir()
                raise
        self._made: set[str] = set()
        self._unchanged_modes: set[int] = set()

    def make_parents(self, path: str) -> None:
        """Make the parent directories of `path`."""
        missing = []
        parent = path.rpartition("/")[0]
        while parent and parent not in self._made:
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        for one in reversed(missing):
            self.make_directory(one)

    def make_directory(self, path: str) -> None:
        """Make a directory, unless this object has made it already."""
        if path in self._made:
            return
        try:
            os.mkdir(path, _DIRECTORY, dir_fd=self.root)
            os.chmod(path, _DIRECTORY, dir_fd=self.root)  # whatever the umask is
        except OSError as error:
            raise _creation_error(path, error) from error
        self._made.add(path)

    def create(self, path: str, *, executable: bool) -> int:
        """Create a new file and open it for reading and writing. The caller closes the descriptor."""
        mode = 0o755 if executable else 0o644
        try:
            fd = os.open(path, _NEW, mode, dir_fd=self.root)
        except OSError as error:
            raise _creation_error(path, error) from error
        if mode not in self._unchanged_modes:
            try:
                self._set_mode(fd, mode)
            except OSError as error:
                os.close(fd)
                raise io_error(path, error) from error
        return fd

    def _set_mode(self, fd: int, mode: int) -> None:
        """Set the mode if the umask or an ACL changed it. Once a mode arrived unchanged it is not checked again."""
        if stat.S_IMODE(os.fstat(fd).st_mode) == mode:
            self._unchanged_modes.add(mode)
        else:
            os.fchmod(fd, mode)

    def remove(self, path: str) -> None:
        """Remove a file that this object created."""
        with tree_errors(path):
            os.unlink(path, dir_fd=self.root)

    def remove_tree(self, path: str) -> Generator[None, None, None]:
        """Remove the entry at `path`; of a directory, with its content."""
        with tree_errors(path):
            if stat.S_ISDIR(os.stat(path, dir_fd=self.root, follow_symlinks=False).st_mode):
                yield from remove_directory(self.root, path)
            else:
                os.unlink(path, dir_fd=self.root)

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        try:
            os.symlink(target, path, dir_fd=self.root)
        except OSError as error:
            raise _creation_error(path, error) from error

    def swap(self) -> None:
        """Put the new tree in the destination's place. On an error the old tree is back in place."""
        with tree_errors(str(self.destination)):
            # A step may have removed the owner's rights from the old folder; with its mode the new one is unusable.
            self.built.chmod(0o755 if self._mode is None else self._mode | 0o700)
            if self._mode is not None:
                self.destination.rename(self.old)
            try:
                self.built.rename(self.destination)
            except OSError:
                if self._mode is not None:
                    self.old.rename(self.destination)
                raise

    def swap_back(self) -> None:
        """Undo a `swap`."""
        with tree_errors(str(self.destination)):
            self.destination.rename(self.built)
            if self._mode is not None:
                self.old.rename(self.destination)

    def discard(self) -> Generator[None, None, None]:
        """Remove the siblings of the destination. Raises `TreeError` (rule `leftover`) if one cannot be removed."""
        if self.root >= 0:
            os.close(self.root)
            self.root = -1
        leftovers = []
        for folder in (self.built, self.old):
            try:
                yield from remove_folder(folder)
            except OSError as error:
                message = f"it could not be removed ({error.strerror}); remove it by hand"
                leftovers.append(TreeError(str(folder), "leftover", message))
        raise_leftovers(leftovers)


@contextmanager
def discarding(folder: StagedDirectory) -> Iterator[None]:
    """Call `discard` on every path. A leftover becomes a note of the error that is being raised, if there is one."""
    try:
        yield
    except BaseException as error:
        try:
            for _ in folder.discard():
                pass
        except TreeError as leftover:
            error.add_note(str(leftover))
        raise
    for _ in folder.discard():
        pass


def raise_leftovers(errors: Sequence[TreeError]) -> None:
    """Raise one `TreeError` (rule `leftover`) for all of them; return if there are none."""
    if errors:
        message = "; ".join([errors[0].message, *map(str, errors[1:])])
        raise TreeError(errors[0].path, "leftover", message)


def sibling(destination: Path, stem: str, part: str) -> Path:
    """The path of the sibling `part` (`new` or `old`) of the destination. `stem`: the random hex digits of a swap."""
    name = os.fsdecode(os.fsencode(f".{destination.name}")[:_NAME_BYTES])
    return destination.parent / f"{name}.senro-{stem}.{part}"


def siblings(destination: Path) -> dict[str, set[str]]:
    """The parts of existing siblings by their stem. The destination's name is short enough not to be cut.

    Raises OSError.
    """
    pattern = re.compile(rf"\.{re.escape(destination.name)}\.senro-([0-9a-f]+)\.(\w+)")
    found: dict[str, set[str]] = {}
    for entry in destination.parent.iterdir():
        if match := pattern.fullmatch(entry.name):
            found.setdefault(match[1], set()).add(match[2])
    return found


def swap_all(folders: Sequence[StagedDirectory]) -> None:
    """Swap all of them or none: on an error the swaps that were done are undone."""
    done: list[StagedDirectory] = []
    try:
        for folder in folders:
            folder.swap()
            done.append(folder)
    except BaseException:
        for folder in reversed(done):
            folder.swap_back()
        raise


def _mode(destination: Path) -> int | None:
    """The permission bits of the destination, None if it does not exist. Raises `TreeError` if it is no directory."""
    try:
        mode = destination.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(mode):
        raise TreeError(str(destination), "destination", "it exists and is no directory, so it cannot be replaced")
    return stat.S_IMODE(mode)
