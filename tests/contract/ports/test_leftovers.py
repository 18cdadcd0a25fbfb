"""Files that cannot be removed are all named, and never in place of an earlier error."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from senro.adapters.fs import FolderContentStore, FolderTrees
from senro.domain.errors import TreeError
from senro.domain.tree.content_rules import ContentRules
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import archive, directory, file, link, names

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("work", ["restore", "copy", "prune"])
async def test_first_error_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    """If the file system becomes read-only, the first error is raised, and the folder is unchanged."""
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        (folder / "d").mkdir(parents=True)
        (folder / "d" / "f").write_bytes(folder.name.encode())
        (folder / "l").symlink_to("d/f")
    trees, store = FolderTrees(), FolderContentStore(str(tmp_path / "cache"))
    tree = await trees.walk(str(source))
    digest = await store.put(tree, str(source))
    calls = {
        "restore": lambda: store.restore(digest, str(target)),
        "copy": lambda: trees.copy(tree, str(source), str(tmp_path / "new")),
        "prune": lambda: trees.prune(str(target), rules=ContentRules(follow=True)),
    }

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for call in ("write", "unlink"):
        monkeypatch.setattr(f"senro.adapters.fs.staged_directory.os.{call}", refuse)
    with pytest.raises(TreeError) as caught:
        await calls[work]()
    monkeypatch.undo()
    assert caught.value.rule == "io"
    assert "could not be removed" in "".join(caught.value.__notes__)
    assert (target / "d" / "f").read_bytes() == b"target"
    assert (target / "l").is_symlink()


async def test_all_leftovers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder is removed or named, and none stays open."""
    tree, contents = Tree((directory("d"), file("new", b"new"), link("l", "d"))), {"new": b"new"}
    unlink = os.unlink
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / ("free" if name == "b" else "held")).touch()

    def refuse(path: str, **rest: int) -> None:
        if path == "held":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(path, **rest)

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a folder of the kernel
    monkeypatch.setattr("senro.adapters.fs.staged_directory.os.unlink", refuse)

    async def replace_all() -> None:
        async with FolderTrees().unpack({place: str(tmp_path / name) for place, name in enumerate("abc")}) as unpacking:
            for place in range(3):
                await unpacking.write(archive(tree, contents, place)[: -1024 if place < 2 else None])
            await unpacking.finish()
            await unpacking.replace()

    with pytest.raises(TreeError) as caught:
        await replace_all()
    monkeypatch.undo()
    assert caught.value.rule == "leftover"
    held = [name for name in names(tmp_path) if name.endswith(".old")]
    assert [name[:2] for name in held] == [".a", ".c"]
    assert all(name in str(caught.value) for name in held)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
    assert [(tmp_path / name / "new").read_bytes() for name in "abc"] == [b"new"] * 3
