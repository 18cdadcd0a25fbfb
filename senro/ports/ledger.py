"""The folder of a run: its plan, its events, its logs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class StepLog(Protocol):
    """The log of one attempt of one step, `logs/<step>/<attempt>.log`."""

    @property
    def path(self) -> str:
        """The path of the file, for messages."""

    async def write(self, data: bytes) -> None:
        """Append `data`. The operating system has it when this returns."""


class RunLedger(Protocol):
    """The folder of one run."""

    @property
    def run_id(self) -> str:
        """`<utc>-<random>`, such as `20261129T231308Z-5f0c9a`; sorts by time."""

    @property
    def folder(self) -> str:
        """`<run-dir>/<run_id>`."""

    async def write_plan(self, document: bytes) -> None:
        """Write `plan.json`. Called once; the file is never visible in part."""

    async def append(self, line: bytes) -> None:
        """Append one event, a JSON document without a newline, to `events.jsonl`. No reader sees a part of a line."""

    def open_log(self, step_folder: str, attempt: int) -> AbstractAsyncContextManager[StepLog]:
        """Create the log of an attempt. `step_folder` is a name from `senro.domain.kube.names.label_value`."""

    def workspace(self, name: str) -> str:
        """Returns the path of the folder for a workspace's files in this run. Its parent exists; only senro uses it."""

    def scratch(self, name: str) -> str:
        """Create a temporary folder that only this user may read. Returns its path. The end of the run removes it."""
