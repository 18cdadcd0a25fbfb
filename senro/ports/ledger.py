"""What a run leaves behind: its plan, its events, its logs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class StepLog(Protocol):
    """The log of one attempt of one step, `logs/<step>/<attempt>.log`."""

    @property
    def path(self) -> str:
        """Where a person finds it."""
        ...

    async def write(self, data: bytes) -> None:
        """Append; on disk when it returns, as far as the operating system promises."""
        ...


class RunLedger(Protocol):
    """The folder of one run."""

    @property
    def run_id(self) -> str:
        """`<utc>-<random>`, such as `20261129T231308Z-5f0c9a`; sorts by time."""
        ...

    @property
    def folder(self) -> str:
        """`<run-dir>/<run_id>`."""
        ...

    async def write_plan(self, document: bytes) -> None:
        """Write `plan.json`, whole, once."""
        ...

    async def append(self, line: bytes) -> None:
        """Append one event, a JSON document without a newline, to `events.jsonl`; a reader never sees half of one."""
        ...

    def open_log(self, step_folder: str, attempt: int) -> AbstractAsyncContextManager[StepLog]:
        """The log of an attempt, created empty. `step_folder` is a name from `domain.names.label_value`."""
        ...

    def workspace(self, name: str) -> str:
        """The folder that holds a workspace's files in this run; its parent exists and is ours alone."""
        ...

    def scratch(self, name: str) -> str:
        """A folder of the run for anything temporary; it is created, private to this user, and removed at the end."""
        ...
