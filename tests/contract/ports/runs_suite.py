"""The conformance suite of `senro.ports.runs`."""

from __future__ import annotations

import pytest

from senro.domain.errors import StoreError
from senro.domain.run.events import Event, RunEnded, RunStarted, WorkspaceOpened
from senro.ports.runs import Runs
from tests.lib.builders.events import AT

pytestmark = pytest.mark.anyio

OLD, NEW = "20261129T231308Z-5f0c9a", "20261129T231309Z-000000"
STARTED = RunStarted(at=AT, run=OLD, pipeline="release", steps=(), senro_version="1")
OPENED = WorkspaceOpened(at=AT, workspace="src", digest="sha256:1", files=1, bytes=2)


class RunsSuite:
    """A subclass has the fixtures `runs`, which is empty, and `write`, which makes a run of events."""

    @pytest.fixture
    def runs(self) -> Runs:
        raise NotImplementedError

    def write(self, run: str, *events: Event) -> None:
        raise NotImplementedError

    async def test_no_runs(self, runs: Runs) -> None:
        """There are no ids before the first run."""
        assert list(await runs.ids()) == []

    async def test_ids_are_in_order(self, runs: Runs) -> None:
        """The oldest run is first, in whatever order they were written."""
        self.write(NEW, STARTED)
        self.write(OLD, STARTED)
        assert list(await runs.ids()) == [OLD, NEW]

    async def test_history_is_of_one_run(self, runs: Runs) -> None:
        """The history has the events of this run and no others."""
        self.write(OLD, STARTED, OPENED, RunEnded(at=AT, state="failed"))
        self.write(NEW, STARTED)
        known = await runs.history(OLD)
        assert (known.pipeline, known.state, list(known.workspaces)) == ("release", "failed", ["src"])
        assert (await runs.history(NEW)).state is None

    async def test_missing_run(self, runs: Runs) -> None:
        """A run that does not exist is an error that names it."""
        with pytest.raises(StoreError, match=OLD):
            await runs.history(OLD)
