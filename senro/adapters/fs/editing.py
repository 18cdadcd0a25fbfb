"""Changes the workspace that a step used: removes entries, replaces links by their content, clears mode bits."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from senro.adapters.fs.open_directory import OpenDirectory
from senro.adapters.fs.removal import remove_directory, with_write_access
from senro.adapters.fs.work import tree_errors

if TYPE_CHECKING:
    from collections.abc import Generator

    from senro.adapters.fs.staged_directory import StagedDirectory


class EditableDirectory(OpenDirectory):
    """An open directory whose entries are changed. Every method raises `TreeError` (rule `io`)."""

    def remove(self, path: str) -> None:
        """Remove a file or a link."""
        with tree_errors(path):
            parent, name = self.parent(path)
            with_write_access(parent, partial(os.unlink, name, dir_fd=parent))

    def replace_from(self, path: str, other: StagedDirectory) -> None:
        """Move the entry of `other` at `path` over the file or link here."""
        with tree_errors(path):
            if stat.S_ISDIR(os.stat(path, dir_fd=other.root, follow_symlinks=False).st_mode):
                self.remove(path)  # rename(2) cannot put a directory over a link
            parent, name = self.parent(path)
            with_write_access(parent, partial(os.rename, path, name, src_dir_fd=other.root, dst_dir_fd=parent))

    def remove_tree(self, path: str) -> Generator[None, None, None]:
        """Remove the entry at `path`; of a directory, with its content."""
        with tree_errors(path):
            parent, name = self.parent(path)
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                yield from remove_directory(parent, name)
            else:
                self.remove(path)

    def clear_special_bits(self, path: str) -> None:
        """Clear the mode bits of a file that a snapshot does not carry: setuid, setgid, sticky."""
        with tree_errors(path):
            fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.fchmod(fd, os.fstat(fd).st_mode & 0o777)
            finally:
                os.close(fd)
