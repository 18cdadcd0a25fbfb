"""What every `RunLedger` must do."""

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
"""Opens a new run at a time, with sixteen random hexadecimal digits."""


class RunLedgerSuite:
    """Subclass it and give `opening`."""

    @pytest.fixture
    def opening(self) -> Opening:
        raise NotImplementedError

    async def test_name(self, opening: Opening) -> None:
        """A run's name is its time in UTC and something random; its folder ends in it."""
        async with opening(NOW, "5f0c9a0123456789") as ledger:
            assert ledger.run_id == "20261129T231308Z-5f0c9a"
            assert Path(ledger.folder).name == ledger.run_id
            assert "events.jsonl" in names(Path(ledger.folder))

    async def test_never_the_same(self, opening: Opening) -> None:
        """Two runs never share a folder, also with one time and the first random digits alike; at worst one fails."""
        async with opening(NOW, "5f0c9a0123456789") as one, opening(NOW, "5f0c9abbbbbbbbbb") as other:
            assert one.run_id != other.run_id
        async with opening(NOW, "5f0c9a0123456789"), opening(NOW, "5f0c9a0123456789"):
            with pytest.raises(StoreError, match="start the run again"):
                async with opening(NOW, "5f0c9a0123456789"):
                    pass

    async def test_plan_once(self, opening: Opening) -> None:
        """The plan is written whole, and once."""
        async with opening(NOW, "0" * 16) as ledger:
            await ledger.write_plan(b'{"a": 1}')
            assert (Path(ledger.folder) / "plan.json").read_bytes() == b'{"a": 1}'
            with pytest.raises(StoreError):
                await ledger.write_plan(b"{}")
            assert (Path(ledger.folder) / "plan.json").read_bytes() == b'{"a": 1}'

    async def test_events_in_order(self, opening: Opening) -> None:
        """Events are lines in the order in which they were appended, each there when `append` returns."""
        async with opening(NOW, "0" * 16) as ledger:
            events = Path(ledger.folder) / "events.jsonl"
            assert events.read_bytes() == b""
            for number in range(10):
                await ledger.append(b'{"n": %d}' % number)
                assert events.read_bytes().endswith(b'{"n": %d}\n' % number)
        assert events.read_bytes() == b"".join(b'{"n": %d}\n' % number for number in range(10))

    async def test_events_at_once(self, opening: Opening) -> None:
        """Events that are appended at once are whole lines, all of them, each once."""
        async with opening(NOW, "0" * 16) as ledger:
            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(ledger.append, b"%d " % number * 3000)
            lines = (Path(ledger.folder) / "events.jsonl").read_bytes().splitlines()
        assert sorted(lines) == sorted(b"%d " % number * 3000 for number in range(50))

    @pytest.mark.parametrize("line", [b"", b"a\nb", b"a\n"])
    async def test_no_event(self, opening: Opening, line: bytes) -> None:
        """What is not one line is no event, and a mistake of the caller."""
        async with opening(NOW, "0" * 16) as ledger:
            with pytest.raises(ValueError, match="one line"):
                await ledger.append(line)
            assert (Path(ledger.folder) / "events.jsonl").read_bytes() == b""

    async def test_log(self, opening: Opening) -> None:
        """A log is there, empty, once it is opened, and holds what was written when `write` returns."""
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

    async def test_log_once(self, opening: Opening) -> None:
        """An attempt has one log: opening it again is an error and keeps what there is; other attempts have theirs."""
        async with opening(NOW, "0" * 16) as ledger:
            async with ledger.open_log("make", 1) as log:
                await log.write(b"kept")
            with pytest.raises(StoreError, match=re.escape(log.path)):
                await ledger.open_log("make", 1).__aenter__()
            async with ledger.open_log("make", 2), ledger.open_log("test", 1):
                pass
            assert (Path(ledger.folder) / "logs" / "make" / "1.log").read_bytes() == b"kept"

    async def test_workspace(self, opening: Opening) -> None:
        """A workspace's folder is not made, but its parent is, for this user alone; it stays after the run."""
        async with opening(NOW, "0" * 16) as ledger:
            folder = ledger.workspace("src")
            assert not exists(folder)
            assert mode_of(Path(folder).parent) == 0o700
            make_folder(Path(folder), Tree(), {})
            assert ledger.workspace("src") == folder != ledger.workspace("other")
        assert exists(folder)

    async def test_scratch(self, opening: Opening) -> None:
        """A scratch folder is made for this user alone, is the same for the same name, and is gone after the run."""
        async with opening(NOW, "0" * 16) as ledger:
            folder = Path(ledger.scratch("func"))
            assert mode_of(folder) == 0o700
            (folder / "x").mkdir(mode=0)
            (folder / "y").write_bytes(b"secret")
            assert ledger.scratch("func") == str(folder) != ledger.scratch("other")
        assert not folder.parent.exists()
        assert "events.jsonl" in names(Path(ledger.folder))

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\0"])
    async def test_no_name(self, opening: Opening, name: str) -> None:
        """A name that could lead out of the run's folder is refused."""
        async with opening(NOW, "0" * 16) as ledger:
            for call in (ledger.workspace, ledger.scratch):
                with pytest.raises(StoreError):
                    call(name)
            with pytest.raises(StoreError):
                await ledger.open_log(name, 1).__aenter__()

    async def test_closed(self, opening: Opening) -> None:
        """After its end a ledger takes no event."""
        async with opening(NOW, "0" * 16) as ledger:
            await ledger.append(b"{}")
        with pytest.raises(StoreError):
            await ledger.append(b"{}")
        assert (Path(ledger.folder) / "events.jsonl").read_bytes() == b"{}\n"

    async def test_scratch_goes_on_every_path(self, opening: Opening) -> None:
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
