"""`FolderRuns` passes the suite of `Runs`, and handles folders that are not runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from senro.adapters.fs import FolderRuns
from senro.domain.errors import StoreError
from senro.domain.run.events import Event, encode_event
from senro.ports.runs import Runs
from tests.contract.ports.runs_suite import OLD, OPENED, STARTED, RunsSuite

pytestmark = pytest.mark.anyio


class TestFolderRuns(RunsSuite):
    @pytest.fixture
    def runs(self, tmp_path: Path) -> Runs:
        self.folder = tmp_path / "deep" / "runs"
        return FolderRuns(str(self.folder))

    def write(self, run: str, *events: Event) -> None:
        (self.folder / run).mkdir(parents=True)
        (self.folder / run / "events.jsonl").write_bytes(b"".join(encode_event(event) + b"\n" for event in events))

    async def test_incomplete_line_is_ignored(self, runs: Runs) -> None:
        """The history of a run whose coordinator was killed has the complete lines."""
        self.write(OLD, STARTED)
        with (self.folder / OLD / "events.jsonl").open("ab") as ledger:
            ledger.write(encode_event(OPENED)[:-3])
        assert (await runs.history(OLD)).pipeline == "release"

    async def test_other_files_are_no_runs(self, runs: Runs) -> None:
        """Files, and folders without a ledger, are no runs."""
        self.write(OLD, STARTED)
        (self.folder / "notes").mkdir()
        (self.folder / "file").write_bytes(b"")
        assert list(await runs.ids()) == [OLD]

    async def test_file_in_place_of_the_folder(self, tmp_path: Path) -> None:
        """A file in place of the folder is an error that names the option."""
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StoreError, match="--run-dir"):
            await FolderRuns(str(tmp_path / "file")).ids()
