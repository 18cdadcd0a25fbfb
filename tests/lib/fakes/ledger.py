"""A run's folder in memory: its events and logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from senro.domain.errors import StoreError
from senro.domain.run.events import Event, decode_event

RUN_ID = "20261129T231308Z-5f0c9a"


class MemoryLog:
    """A `StepLog`. `content`: what was written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.content = b""

    @property
    def path(self) -> str:
        return self._path

    async def write(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.content += data


class MemoryLedger:
    """A `RunLedger`.

    `root`: a real folder, if the test needs workspaces.
    `broken`: the error that every append raises, if any.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path("/nowhere")
        self.lines: list[bytes] = []
        self.plan = b""
        self.logs: dict[tuple[str, int], MemoryLog] = {}
        self.broken: StoreError | None = None

    @property
    def events(self) -> list[Event]:
        return [decode_event(line) for line in self.lines]

    @property
    def run_id(self) -> str:
        return RUN_ID

    @property
    def folder(self) -> str:
        return str(self._root / RUN_ID)

    async def write_plan(self, document: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.plan = document

    async def append(self, line: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        assert b"\n" not in line
        if self.broken is not None:
            raise self.broken
        self.lines.append(line)

    @asynccontextmanager
    async def open_log(self, step_folder: str, attempt: int) -> AsyncIterator[MemoryLog]:
        log = MemoryLog(f"{self.folder}/logs/{step_folder}/{attempt}.log")
        self.logs[step_folder, attempt] = log
        yield log

    def workspace(self, name: str) -> str:
        return self._made("workspaces", name)

    def scratch(self, name: str) -> str:
        return self._made("scratch", name, there=True)

    def _made(self, *parts: str, there: bool = False) -> str:
        path = Path(self.folder).joinpath(*parts)
        (path if there else path.parent).mkdir(parents=True, exist_ok=True)
        return str(path)
