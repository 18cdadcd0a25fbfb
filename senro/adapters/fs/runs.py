"""`ports.runs.Runs` for the folder in which `adapters.fs.ledger` creates the folders of runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from senro.adapters.fs.work import store_errors
from senro.domain.run.history import History, history, read_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

LEDGER = "events.jsonl"
"""The file name of a run's ledger in its folder."""


def read_history(folder: Path) -> History:
    """The history of the run in this folder. Raises OSError."""
    return history(read_ledger((folder / LEDGER).read_bytes()))


class FolderRuns:
    """The runs below `run_dir`: each folder that contains a ledger."""

    def __init__(self, run_dir: str) -> None:
        self._folder = Path(run_dir).absolute()

    async def ids(self) -> Sequence[str]:
        """See `ports.runs.Runs.ids`. An id begins with the time of the run, so sorted ids are in order of time."""
        return await anyio.to_thread.run_sync(self._ids)

    async def history(self, run: str) -> History:
        """See `ports.runs.Runs.history`."""
        folder = self._folder / run
        with store_errors(folder / LEDGER, "the run's events cannot be read: {}"):
            return await anyio.to_thread.run_sync(read_history, folder)

    def _ids(self) -> list[str]:
        message = "the runs cannot be read: {}; check the folder given by --run-dir"
        with store_errors(self._folder, message), suppress(FileNotFoundError):
            return sorted(entry.name for entry in self._folder.iterdir() if (entry / LEDGER).is_file())
        return []
