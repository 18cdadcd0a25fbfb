"""`open_run_folder` passes the suite of `RunLedger`, and handles the errors of a disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from senro.adapters.fs import open_run_folder
from senro.domain.errors import StoreError
from tests.contract.ports.ledger_suite import NOW, Opening, RunLedgerSuite
from tests.contract.ports.test_trees import open_files
from tests.lib.archives.files import names

pytestmark = pytest.mark.anyio


class TestRunFolder(RunLedgerSuite):
    @pytest.fixture
    def opening(self, tmp_path: Path) -> Opening:
        return lambda now, token: open_run_folder(str(tmp_path / "deep" / "runs"), now=now, token=token)


async def test_files_of_a_run(tmp_path: Path) -> None:
    """The folder of a run has the files that the ledger names, and they are closed at its end."""
    opened = open_files()
    async with open_run_folder(str(tmp_path), now=NOW, token="0" * 16) as ledger:
        await ledger.write_plan(b"{}")
        ledger.scratch("a")
        async with ledger.open_log("make", 1):
            folder = Path(ledger.folder)
            assert names(folder) == ["events.jsonl", "logs", "plan.json", "scratch", "workspaces"]
    assert names(folder) == ["events.jsonl", "logs", "plan.json", "workspaces"]
    assert open_files() == opened


async def test_partial_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that the system writes in parts is completed."""
    write = os.write
    async with open_run_folder(str(tmp_path), now=NOW, token="0" * 16) as ledger:
        monkeypatch.setattr("senro.adapters.fs.copying.os.write", lambda opened, data: write(opened, data[:3]))
        await ledger.append(b"a whole line")
        monkeypatch.undo()
        assert (Path(ledger.folder) / "events.jsonl").read_bytes() == b"a whole line\n"


async def test_incomplete_line_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that a full disk cuts is removed and raises; the next line is complete."""
    write = os.write
    written = 0

    def filling(opened: int, data: bytes) -> int:
        nonlocal written
        if written >= 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += 5
        return write(opened, data[:5])

    async with open_run_folder(str(tmp_path), now=NOW, token="0" * 16) as ledger:
        await ledger.append(b"first")
        monkeypatch.setattr("senro.adapters.fs.copying.os.write", filling)
        with pytest.raises(StoreError, match="No space left") as caught:
            await ledger.append(b"a line that is lost")
        monkeypatch.undo()
        assert caught.value.path.endswith("events.jsonl")
        await ledger.append(b"second")
        assert (Path(ledger.folder) / "events.jsonl").read_bytes() == b"first\nsecond\n"


async def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    """The error names the folder."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        async with open_run_folder(str(tmp_path / "file" / "runs"), now=NOW, token="0" * 16):
            pass
    assert caught.value.path == str(tmp_path / "file" / "runs")


async def test_scratch_folder_that_cannot_be_created(tmp_path: Path) -> None:
    """The error names the folder."""
    async with open_run_folder(str(tmp_path), now=NOW, token="0" * 16) as ledger:
        (Path(ledger.folder) / "scratch").write_bytes(b"")
        with pytest.raises(StoreError, match="scratch"):
            ledger.scratch("a")
        (Path(ledger.folder) / "scratch").unlink()


async def test_failed_plan_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that cannot be written leaves no file, and may be written again."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with open_run_folder(str(tmp_path), now=NOW, token="0" * 16) as ledger:
        monkeypatch.setattr("senro.adapters.fs.copying.os.write", full)
        with pytest.raises(StoreError, match="No space left"):
            await ledger.write_plan(b"{}")
        monkeypatch.undo()
        assert names(Path(ledger.folder)) == ["events.jsonl", "logs", "workspaces"]
        await ledger.write_plan(b"{}")
