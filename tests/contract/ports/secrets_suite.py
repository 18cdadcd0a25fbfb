"""The conformance suites of `senro.ports.secrets`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from senro.domain.errors import ConfigurationError, StoreError
from senro.ports.secrets import SecretFiles, SecretSource
from tests.lib.archives.files import mode_of

pytestmark = pytest.mark.anyio

VALUE = b"made-up \xff\n value\n"


def content(path: str) -> bytes:
    """Returns the content of a file."""
    return Path(path).read_bytes()


class SecretSourceSuite:
    """A subclass has the fixture `stocked`, a source with these values and no others."""

    HELD: ClassVar[Mapping[str, bytes]] = {"Kubeconfig": VALUE, "deploy-key.2": b"made-up other", "Token": b"x" * 9000}

    def stocked(self, folder: Path) -> SecretSource:
        """The source; `folder` is empty and belongs to the test."""
        raise NotImplementedError

    async def test_values(self, tmp_path: Path) -> None:
        """Each name has its value, byte for byte, including trailing white space."""
        source = self.stocked(tmp_path)
        for name, value in self.HELD.items():
            assert await source.read(name) == value

    async def test_concurrent_reads(self, tmp_path: Path) -> None:
        """Concurrent reads return the values of their own names."""
        source = self.stocked(tmp_path)
        got: dict[str, bytes] = {}

        async def read(name: str) -> None:
            got[name] = await source.read(name)

        async with anyio.create_task_group() as group:
            for name in self.HELD:
                group.start_soon(read, name)
        assert got == self.HELD

    async def test_missing_secret(self, tmp_path: Path) -> None:
        """One refusal names the secret, the places searched and what to set, and shows no other value."""
        with pytest.raises(ConfigurationError) as caught:
            await self.stocked(tmp_path).read("Missing-Key")
        (refusal,) = caught.value.refusals
        assert refusal.where == "secret Missing-Key"
        assert "SENRO_SECRET_MISSING_KEY" in refusal.message
        assert "senro.secret." in refusal.message
        assert "made-up" not in str(caught.value) + repr(caught.value)

    async def test_cancelled_read(self, tmp_path: Path) -> None:
        """A cancelled read raises nothing else, and the next one returns the value."""
        source = self.stocked(tmp_path)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await source.read("Token")
        assert await source.read("Token") == self.HELD["Token"]

    async def test_repr_shows_no_value(self, tmp_path: Path) -> None:
        """Neither repr nor str of the source shows a value, before and after it was read."""
        source = self.stocked(tmp_path)
        before = repr(source) + str(source)
        await source.read("Kubeconfig")
        assert "made-up" not in before + repr(source) + str(source)


class SecretFilesSuite:
    """A subclass has the fixture `files`."""

    @pytest.fixture
    def files(self) -> SecretFiles:
        raise NotImplementedError

    @pytest.mark.parametrize("value", [VALUE, b"", bytes(1_048_576)], ids=["bytes", "empty", "a MiB"])
    @pytest.mark.parametrize("umask", [0, 0o077])
    async def test_file_is_private(self, files: SecretFiles, tmp_path: Path, value: bytes, umask: int) -> None:
        """The file is below the folder, has the value byte for byte, and has mode 0600 with any umask."""
        before = os.umask(umask)
        try:
            path = await files.write(str(tmp_path), "Token", value)
        finally:
            os.umask(before)
        assert path.startswith(f"{tmp_path}/")
        assert content(path) == value
        assert mode_of(path) == 0o600

    async def test_each_name_has_its_file(self, files: SecretFiles, tmp_path: Path) -> None:
        """Two secrets of a step are two files, also when they are written concurrently."""
        got: dict[str, str] = {}

        async def write(name: str) -> None:
            got[name] = await files.write(str(tmp_path), name, name.encode())

        async with anyio.create_task_group() as group:
            for name in ("Kubeconfig", "deploy-key.2"):
                group.start_soon(write, name)
        assert {name: content(path) for name, path in got.items()} == {name: name.encode() for name in got}
        assert len(set(got.values())) == 2

    async def test_existing_file_is_not_written(self, files: SecretFiles, tmp_path: Path) -> None:
        """A name that exists already is an error with the path and without the value."""
        (tmp_path / "elsewhere").write_bytes(b"kept")
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
        (tmp_path / "file").write_bytes(b"kept")
        (tmp_path / "folder").mkdir()
        for name in ("link", "dangling", "file", "folder"):
            with pytest.raises(StoreError, match=name) as caught:
                await files.write(str(tmp_path), name, b"made-up")
            assert "made-up" not in str(caught.value) + repr(caught.value)
        assert (tmp_path / "elsewhere").read_bytes() == (tmp_path / "file").read_bytes() == b"kept"
        assert not (tmp_path / "nothing").exists()

    async def test_missing_folder(self, files: SecretFiles, tmp_path: Path) -> None:
        """A missing folder is an error with the text of the operating system, and is not created."""
        with pytest.raises(StoreError, match="No such file or directory") as caught:
            await files.write(str(tmp_path / "gone"), "Token", b"made-up")
        assert "made-up" not in str(caught.value) + repr(caught.value)
        assert not (tmp_path / "gone").exists()
