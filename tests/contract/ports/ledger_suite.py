"""The conformance suite of `senro.ports.ledger`."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from senro.domain.errors import StoreError
from senro.domain.tree.tree import Tree
from senro.ports.ledger import RunLedger
from tests.lib.archives.files import exists, make_folder, mode_of, names

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 29, 23, 13, 8, tzinfo=UTC)

Opening = Callable[[datetime, str], AbstractAsyncContextManager[RunLedger]]
"""Opens a new run, of a time and sixteen random hexadecimal digits."""


class RunLedgerSuite:
    """A subclass has the fixture `opening`."""

    @pytest.fixture
    def opening(self) -> Opening:
        raise NotImplementedError

    async def test_run_id(self, opening: Opening) -> None:
        """The id of a run is its time in UTC and a random part; its folder ends in it."""
        async with opening(NOW, "5f0c9a0123456789") as ledger:
            assert ledger.run_id == "20261129T231308Z-5f0c9a"
            assert Path(ledger.folder).name == ledger.run_id
            assert "events.jsonl" in names(Path(ledger.folder))

    async def test_runs_never_share_a_folder(self, opening: Opening) -> None:
        """Two runs with the same time and the same first random digits get two folders, or one of them fails."""
        async with opening(NOW, "5f0c9a0123456789") as one, opening(NOW, "5f0c9abbbbbbbbbb") as other:
            assert one.run_id != other.run_id
        async with opening(NOW, "5f0c9a0123456789"), opening(NOW, "5f0c9a0123456789"):
            with pytest.raises(StoreError, match="start the run again"):
                async with opening(NOW, "5f0c9a0123456789"):
                    pass

    async def test_plan_is_written_once(self, opening: Opening) -> None:
        """The plan is written completely, and a second call raises."""
        async with opening(NOW, "0" * 16) as ledger:
            await ledger.write_plan(b'{"a": 1}')
            assert (Path(ledger.folder) / "plan.json").read_bytes() == b'{"a": 1}'
            with pytest.raises(StoreError):
                await ledger.write_plan(b"{}")
            assert (Path(ledger.folder) / "plan.json").read_bytes() == b'{"a": 1}'

    async def test_events_in_order(self, opening: Opening) -> None:
        """Events are lines in the order of the calls, each in the file when `append` returns."""
        async with opening(NOW, "0" * 16) as ledger:
            events = Path(ledger.folder) / "events.jsonl"
            assert events.read_bytes() == b""
            for number in range(10):
                await ledger.append(b'{"n": %d}' % number)
                assert events.read_bytes().endswith(b'{"n": %d}\n' % number)
        assert events.read_bytes() == b"".join(b'{"n": %d}\n' % number for number in range(10))

    async def test_concurrent_events(self, opening: Opening) -> None:
        """Events that are appended concurrently are complete lines, each once."""
        async with opening(NOW, "0" * 16) as ledger:
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(ledger.append, b"%d " % number * 3000)
            lines = (Path(ledger.folder) / "events.jsonl").read_bytes().splitlines()
        assert sorted(lines) == sorted(b"%d " % number * 3000 for number in range(50))

    @pytest.mark.parametrize("line", [b"", b"a\nb", b"a\n"])
    async def test_invalid_event_is_refused(self, opening: Opening, line: bytes) -> None:
        """An event that is not one line is an error of the caller."""
        async with opening(NOW, "0" * 16) as ledger:
            with pytest.raises(ValueError, match="one line"):
                await ledger.append(line)
            assert (Path(ledger.folder) / "events.jsonl").read_bytes() == b""

    async def test_log(self, opening: Opening) -> None:
        """A log exists once it is opened, and has the data when `write` returns."""
        async with opening(NOW, "0" * 16) as ledger:
            async with ledger.open_log("make", 2) as log:
                path = Path(ledger.folder) / "logs" / "make" / "2.log"
                assert log.path == str(path)
                assert path.read_bytes() == b""
                await log.write(b"one\n")
                await log.write(b"")
                await log.write(b"\xff half")
                assert path.read_bytes() == b"one\n\xff half"
            with pytest.raises(StoreError):
                await log.write(b"late")
            assert path.read_bytes() == b"one\n\xff half"

    async def test_log_is_opened_once(self, opening: Opening) -> None:
        """Opening the log of an attempt twice raises and keeps it; other attempts have their own."""
        async with opening(NOW, "0" * 16) as ledger:
            async with ledger.open_log("make", 1) as log:
                await log.write(b"kept")
            with pytest.raises(StoreError, match=re.escape(log.path)):
                await ledger.open_log("make", 1).__aenter__()
            async with ledger.open_log("make", 2), ledger.open_log("test", 1):
                pass
            assert (Path(ledger.folder) / "logs" / "make" / "1.log").read_bytes() == b"kept"

    async def test_workspace_folder(self, opening: Opening) -> None:
        """The parent of a workspace's folder exists and is private; the folder stays after the run."""
        async with opening(NOW, "0" * 16) as ledger:
            folder = ledger.workspace("src")
            assert not exists(folder)
            assert mode_of(Path(folder).parent) == 0o700
            make_folder(Path(folder), Tree(), {})
            assert ledger.workspace("src") == folder != ledger.workspace("other")
        assert exists(folder)

    async def test_scratch_folder(self, opening: Opening) -> None:
        """A scratch folder is private, is the same for the same name, and is removed after the run."""
        async with opening(NOW, "0" * 16) as ledger:
            folder = Path(ledger.scratch("func"))
            assert mode_of(folder) == 0o700
            (folder / "x").mkdir(mode=0)
            (folder / "y").write_bytes(b"secret")
            assert ledger.scratch("func") == str(folder) != ledger.scratch("other")
        assert not folder.parent.exists()
        assert "events.jsonl" in names(Path(ledger.folder))

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0"])
    async def test_invalid_name_is_refused(self, opening: Opening, name: str) -> None:
        """A name that leads out of the run's folder is refused."""
        async with opening(NOW, "0" * 16) as ledger:
            for call in (ledger.workspace, ledger.scratch):
                with pytest.raises(StoreError):
                    call(name)
            with pytest.raises(StoreError):
                await ledger.open_log(name, 1).__aenter__()

    async def test_closed_ledger_refuses_events(self, opening: Opening) -> None:
        """A ledger refuses events after its end."""
        async with opening(NOW, "0" * 16) as ledger:
            await ledger.append(b"{}")
        with pytest.raises(StoreError):
            await ledger.append(b"{}")
        assert (Path(ledger.folder) / "events.jsonl").read_bytes() == b"{}\n"

    async def test_scratch_folders_are_always_removed(self, opening: Opening) -> None:
        """A run that fails or is cancelled removes its scratch folders too."""
        folders = []

        async def fail() -> None:
            async with opening(NOW, "0" * 16) as ledger:
                folders.append(Path(ledger.scratch("a")))
                raise ValueError("the run failed")

        with pytest.raises(ValueError, match="the run failed"):
            await fail()
        with anyio.CancelScope() as scope:
            async with opening(NOW, "1" * 16) as ledger:
                folders.append(Path(ledger.scratch("a")))
                scope.cancel()
                await ledger.append(b"{}")
        assert scope.cancelled_caught
        assert not any(folder.exists() for folder in folders)
