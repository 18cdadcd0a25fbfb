"""The conformance suite of `senro.ports.snapshots`."""

from __future__ import annotations

from pathlib import Path

import pytest

from senro.domain.errors import ContentLost, StoreError, TreeError
from senro.domain.tree.tree import Tree
from senro.ports.snapshots import ContentStore
from tests.contract.ports.trees_suite import SMALL, SMALL_CONTENTS, big, folder_with
from tests.lib.archives.files import Contents, digest_of, directory, file, link, names, read_folder, read_folder_as_is
from tests.property.domain.tar.test_tar import AWKWARD, AWKWARD_CONTENTS

pytestmark = pytest.mark.anyio


class ContentStoreSuite:
    """A subclass has the fixture `store`, which is empty."""

    @pytest.fixture
    def store(self) -> ContentStore:
        raise NotImplementedError

    @pytest.mark.parametrize(
        "made", [(SMALL, SMALL_CONTENTS), (AWKWARD, AWKWARD_CONTENTS), (Tree(), {}), (Tree((directory("d"),)), {})]
    )
    async def test_stored_snapshot_is_restored(
        self, store: ContentStore, tmp_path: Path, made: tuple[Tree, Contents]
    ) -> None:
        """A stored snapshot is returned and restored by the digest of its tree, also after its folder is gone."""
        folder = folder_with(tmp_path / "x", *made)
        digest = await store.put(made[0], str(folder))
        assert digest == made[0].digest
        folder.rename(tmp_path / "gone")
        assert await store.get(digest) == made[0]
        assert await store.restore(digest, str(tmp_path / "y")) == made[0]
        assert read_folder(tmp_path / "y") == made[0]

    async def test_kept_links(self, store: ContentStore, tmp_path: Path) -> None:
        """A snapshot stores links that leave it as their text, without their targets."""
        tree = Tree((link("a", "/etc/passwd"), link("b", "../x")), links="keep")
        digest = await store.put(tree, str(folder_with(tmp_path / "x", tree, {})))
        assert await store.get(digest) == await store.restore(digest, str(tmp_path / "y")) == tree
        assert read_folder_as_is(tmp_path / "y") == tree

    async def test_large_snapshot(self, store: ContentStore, tmp_path: Path) -> None:
        """Many files and large files are restored completely."""
        tree, contents = big()
        folder = folder_with(tmp_path / "x", tree, contents)
        await store.restore(await store.put(tree, str(folder)), str(tmp_path / "y"))
        assert read_folder(tmp_path / "y") == tree

    async def test_put_again(self, store: ContentStore, tmp_path: Path) -> None:
        """Storing a tree twice, or trees with equal files, has the same result as storing each once."""
        folder = folder_with(tmp_path / "x")
        other = Tree((*SMALL.entries, file("e2"), file("run", b"#!/bin/sh\n")))
        folder_with(tmp_path / "z", other, {**SMALL_CONTENTS, "e2": b"", "run": b"#!/bin/sh\n"})
        assert await store.put(SMALL, str(folder)) == await store.put(SMALL, str(folder))
        await store.put(other, str(tmp_path / "z"))
        for tree in (SMALL, other):
            await store.restore(tree.digest, str(tmp_path / "y"))
            assert read_folder(tmp_path / "y") == tree

    async def test_restored_files_are_copies(self, store: ContentStore, tmp_path: Path) -> None:
        """Writing to a restored file changes no snapshot."""
        tree, contents = big()
        digest = await store.put(tree, str(folder_with(tmp_path / "x", tree, contents)))
        for name in ("y", "z"):
            await store.restore(digest, str(tmp_path / name))
            for path in (tmp_path / name).iterdir():
                with path.open("r+b") as opened:
                    opened.write(b"!")
        await store.restore(digest, str(tmp_path / "y"))
        assert read_folder(tmp_path / "y") == tree

    async def test_restore_replaces_the_folder(self, store: ContentStore, tmp_path: Path) -> None:
        """A restored folder has the files of the snapshot and no others."""
        digest = await store.put(SMALL, str(folder_with(tmp_path / "x")))
        folder = folder_with(tmp_path / "y", AWKWARD, AWKWARD_CONTENTS)
        await store.restore(digest, str(folder))
        assert read_folder(folder) == SMALL

    @pytest.mark.parametrize("digest", [Tree((directory("never"),)).digest, "", "sha256:..", "sha256:" + "A" * 64, "x"])
    async def test_missing_snapshot(self, store: ContentStore, tmp_path: Path, digest: str) -> None:
        """A missing snapshot, or an invalid digest, is an error, and the folder is unchanged."""
        folder = folder_with(tmp_path / "y")
        with pytest.raises(ContentLost):
            await store.get(digest)
        with pytest.raises(ContentLost):
            await store.restore(digest, str(folder))
        assert read_folder(folder) == SMALL

    @pytest.mark.parametrize("change", [b"other words", b"#!/bin/sH\n", None])
    async def test_changed_file_is_refused(self, store: ContentStore, tmp_path: Path, change: bytes | None) -> None:
        """A file that differs from the tree is named, and no snapshot is visible."""
        folder = folder_with(tmp_path / "x")
        (folder / "d" / "run").unlink()
        if change is not None:
            (folder / "d" / "run").write_bytes(change)
        with pytest.raises(TreeError) as caught:
            await store.put(SMALL, str(folder))
        assert (caught.value.path, caught.value.rule) == ("d/run", "changed")
        with pytest.raises(StoreError):
            await store.get(SMALL.digest)

    async def test_put_of_a_missing_folder(self, store: ContentStore, tmp_path: Path) -> None:
        """The error names the folder."""
        with pytest.raises(TreeError, match="gone"):
            await store.put(SMALL, str(tmp_path / "gone"))

    async def test_restore_leaves_no_siblings(self, store: ContentStore, tmp_path: Path) -> None:
        """No sibling is left after a restore, whether it succeeded or failed."""
        digest = await store.put(SMALL, str(folder_with(tmp_path / "places" / "x")))
        await store.restore(digest, str(tmp_path / "places" / "y"))
        with pytest.raises(StoreError):
            await store.restore(digest_of(b"never"), str(tmp_path / "places" / "z"))
        assert names(tmp_path / "places") == ["x", "y"]
