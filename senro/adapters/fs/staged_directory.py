"""A folder that is built beside the one it will replace, and swapped in by rename.

For a destination `/runs/x/ws` the new tree is built in `/runs/x/.ws.senro-<random>.new`, private to this user. The
swap renames the old tree to `/runs/x/.ws.senro-<random>.old`, the new one to `/runs/x/ws`, then removes the old one. A
process that is killed between the two renames leaves no `ws`, and both siblings under one random part: the `.old` is
then the content before, whole, and renaming it back is the repair. At any other moment `ws` is whole and siblings are
leftovers that may be removed.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from senro.adapters.fs.work import Naming, io_error
from senro.domain.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = 0o755
_OWNER = 0o700
_DEEP = 900  # of 4095 bytes, a character having four at most; the name of one more entry fits
_NAME_BYTES = 200  # of 255, so that the suffix fits


class OpenFolder:
    """A folder by its open descriptor `root`. Paths are relative to it; what stands above them is a real directory."""

    def __init__(self, root: int) -> None:
        self.root = root
        self._made: set[str] = set()
        self._as_asked: set[int] = set()

    def above(self, path: str) -> None:
        """Make the directories that stand above `path`."""
        missing = []
        parent = path.rpartition("/")[0]
        while parent and parent not in self._made:
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        for one in reversed(missing):
            self.directory(one)

    def directory(self, path: str) -> None:
        """Make a directory in it; one that was made here already is fine."""
        if path in self._made:
            return
        with Naming(path), _Apart(path):
            os.mkdir(path, _DIRECTORY, dir_fd=self.root)
            os.chmod(path, _DIRECTORY, dir_fd=self.root)  # whatever the umask is
        self._made.add(path)

    def create(self, path: str, *, executable: bool) -> int:
        """Create a file in it that does not exist, and open it to write and read. The caller closes it."""
        mode = 0o755 if executable else 0o644
        # Two contexts would cost as much as the calls do, for each small file.
        try:
            opened = os.open(path, _NEW, mode, dir_fd=self.root)
        except FileExistsError as error:
            raise _same_name(path) from error
        except OSError as error:
            raise io_error(path, error) from error
        if mode not in self._as_asked:
            try:
                self._set_mode(opened, mode)
            except OSError as error:
                os.close(opened)
                raise io_error(path, error) from error
        return opened

    def _set_mode(self, opened: int, mode: int) -> None:
        """Look at the first file of a mode: what the umask or an ACL leaves of it, they leave for every other one."""
        if stat.S_IMODE(os.fstat(opened).st_mode) == mode:
            self._as_asked.add(mode)
        else:
            os.fchmod(opened, mode)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link in it."""
        with Naming(path), _Apart(path):
            os.symlink(target, path, dir_fd=self.root)

    def remove(self, path: str) -> None:
        """Remove what is no directory of it."""
        with Naming(path):
            _changing(self.root, path, partial(os.unlink, path, dir_fd=self.root))

    def take(self, path: str, other: OpenFolder) -> None:
        """Put what `other` has at `path`, which nobody else may look into, in place of a file or link here."""
        with Naming(path):
            if stat.S_ISDIR(os.stat(path, dir_fd=other.root, follow_symlinks=False).st_mode):
                self.remove(path)  # no rename puts a directory in place of a link
            _changing(self.root, path, partial(os.rename, path, path, src_dir_fd=other.root, dst_dir_fd=self.root))

    def remove_all(self, path: str) -> Generator[None, None, None]:
        """Remove what is at `path`, with all that a directory holds."""
        with Naming(path):
            if stat.S_ISDIR(os.stat(path, dir_fd=self.root, follow_symlinks=False).st_mode):
                yield from _empty(self.root, path)
                _changing(self.root, path, partial(os.rmdir, path, dir_fd=self.root))
            else:
                self.remove(path)

    def without_bits(self, path: str) -> None:
        """Take from a file the mode bits that do not travel."""
        with Naming(path):
            mode = os.stat(path, dir_fd=self.root, follow_symlinks=False).st_mode
            os.chmod(path, mode & 0o777, dir_fd=self.root)


class _Apart:
    """As a context: what is there already is a name that this machine's file system takes for the same.

    Only names of one tree meet here, and each comes once.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Exchange the error."""
        if isinstance(error, FileExistsError):
            raise _same_name(self._path) from error


def _same_name(path: str) -> TreeError:
    return TreeError(
        path,
        "case",
        "this machine's file system has another name for the same: one that differs in case or in its Unicode form "
        "alone; rename one of them, or run on a file system that tells them apart",
    )


class Beside(OpenFolder):
    """One destination's new tree, while it is built. `discard` it on every path; after `swap` that is the old one."""

    def __init__(self, destination: str) -> None:
        # A link in its place is refused, not followed and replaced where it leads. What is above is resolved: with a
        # `..` in its path a folder may be above itself, and could be renamed away but not back.
        place = Path(destination).absolute()
        if place.name in {"", ".."}:
            raise TreeError(destination, "destination", "it is the root, or ends in `..`; name a folder")
        parent = Path(os.path.realpath(place.parent))
        self.destination = parent / place.name
        stem = secrets.token_hex(6)
        self.built, self.old = sibling(self.destination, stem, "new"), sibling(self.destination, stem, "old")
        with Naming(destination):
            parent.mkdir(parents=True, exist_ok=True)
            self._mode = _mode(self.destination)
            self.built.mkdir(mode=0o700)
            try:
                super().__init__(os.open(self.built, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY))
            except BaseException:
                self.built.rmdir()
                raise

    def swap(self) -> None:
        """Put the new tree in the destination's place. On an error the old one is there again."""
        with Naming(str(self.destination)):
            # Whatever rights a step took from its own folder: with those of before we could not enter the new one.
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
        with Naming(str(self.destination)):
            self.destination.rename(self.built)
            if self._mode is not None:
                self.old.rename(self.destination)

    def discard(self) -> Generator[None, None, None]:
        """Remove what is not the destination. Raises `TreeError` (rule `leftover`) if something of it stays."""
        if self.root >= 0:
            os.close(self.root)
            self.root = -1
        left = []
        for folder in (self.built, self.old):
            try:
                yield from remove_folder(folder)
            except OSError as error:
                message = f"it could not be removed ({error.strerror}); remove it by hand"
                left.append(TreeError(str(folder), "leftover", message))
        raise_leftovers(left)


@contextmanager
def discarding(folder: Beside) -> Iterator[None]:
    """Discard it on every path. That something stays never hides the error that is on its way."""
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
    """One `TreeError` (rule `leftover`) for all of them; nothing for none."""
    if errors:
        message = "; ".join([errors[0].message, *map(str, errors[1:])])
        raise TreeError(errors[0].path, "leftover", message)


def sibling(destination: Path, stem: str, part: str) -> Path:
    """What is called `part` beside the destination; those of one swap share a `stem`, drawn hexadecimal digits."""
    name = os.fsdecode(os.fsencode(f".{destination.name}")[:_NAME_BYTES])
    return destination.parent / f"{name}.senro-{stem}.{part}"


def siblings(destination: Path) -> dict[str, set[str]]:
    """The parts that lie beside a destination whose name was not cut, by their stems. Raises OSError."""
    pattern = re.compile(rf"\.{re.escape(destination.name)}\.senro-([0-9a-f]+)\.(\w+)")
    found: dict[str, set[str]] = {}
    for entry in destination.parent.iterdir():
        if match := pattern.fullmatch(entry.name):
            found.setdefault(match[1], set()).add(match[2])
    return found


def swap_all(folders: Sequence[Beside]) -> None:
    """Swap all of them, or none: an error undoes those before it."""
    done: list[Beside] = []
    try:
        for folder in folders:
            folder.swap()
            done.append(folder)
    except BaseException:
        for folder in reversed(done):
            folder.swap_back()
        raise


def remove_folder(folder: Path) -> Generator[None, None, None]:
    """Remove the folder and all in it, following no link; nothing there is fine. Raises OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        root = os.open(folder, flags)
    except FileNotFoundError:
        return
    except PermissionError:
        folder.chmod(0o700)  # a step may have taken them from itself; it is no link, that would be another error
        root = os.open(folder, flags)
    try:
        yield from _empty(root, "")
    finally:
        os.close(root)
    folder.rmdir()


def _empty(root: int, top: str) -> Generator[None, None, None]:
    """Remove all that the directory holds, following no link."""
    waiting = [top]
    emptied = []
    while waiting:
        directory = waiting.pop()
        emptied.append(directory)
        for name, is_directory in _names(root, directory):
            path = f"{directory}/{name}" if directory else name
            if is_directory:
                waiting.append(_brought_up(root, path) if len(path) > _DEEP else path)
            else:
                os.unlink(path, dir_fd=root)
                yield
    for directory in reversed(emptied[1:]):
        _changing(root, directory, partial(os.rmdir, directory, dir_fd=root))  # one that was brought up lies in `root`
        yield


def _brought_up(root: int, path: str) -> str:
    """Move a directory to the top: a step that went down one by one can have made paths that no call can name."""
    name = f".senro-{secrets.token_hex(6)}.old"
    os.chmod(path, 0o700, dir_fd=root)  # moving it changes its `..`
    _changing(root, name, partial(os.rename, path, name, src_dir_fd=root, dst_dir_fd=root))
    return name


def _changing(root: int, path: str, change: Callable[[], None]) -> None:
    """Do what changes the directory that holds `path`, also where a step took the right to do so from its owner.

    The directory has its mode again afterwards: `go mod download` leaves what it brought read-only on purpose.
    """
    try:
        change()
    except PermissionError:
        directory = path.rpartition("/")[0] or "."
        mode = stat.S_IMODE(os.stat(directory, dir_fd=root, follow_symlinks=False).st_mode)
        if mode & _OWNER == _OWNER:
            raise
        os.chmod(directory, mode | _OWNER, dir_fd=root)
        try:
            change()
        finally:
            os.chmod(directory, mode, dir_fd=root)


def _names(root: int, directory: str) -> list[tuple[str, bool]]:
    # A step may have taken its own rights away from a folder; ours are needed to empty it.
    os.chmod(directory or ".", 0o700, dir_fd=root)
    opened = os.open(directory or ".", os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, dir_fd=root)
    try:
        with os.scandir(opened) as listing:
            return [(item.name, item.is_dir(follow_symlinks=False)) for item in listing]
    finally:
        os.close(opened)


def _mode(destination: Path) -> int | None:
    """The permission bits of the folder there, None where there is none."""
    try:
        mode = destination.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(mode):
        raise TreeError(
            str(destination), "destination", "it is there and no folder, so nothing can be put in its place"
        )
    return stat.S_IMODE(mode)
