"""What every `Runs` must do."""

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
    """Subclass it and give `runs`, which has none, and `write`, which makes one of events."""

    @pytest.fixture
    def runs(self) -> Runs:
        raise NotImplementedError

    def write(self, run: str, *events: Event) -> None:
        raise NotImplementedError

    async def test_none(self, runs: Runs) -> None:
        """Where nothing ever ran there is no run."""
        assert list(await runs.ids()) == []

    async def test_in_order(self, runs: Runs) -> None:
        """The oldest first, whichever was written first."""
        self.write(NEW, STARTED)
        self.write(OLD, STARTED)
        assert list(await runs.ids()) == [OLD, NEW]

    async def test_what_is_told(self, runs: Runs) -> None:
        """What the run's own ledger says, and nobody else's."""
        self.write(OLD, STARTED, OPENED, RunEnded(at=AT, state="failed"))
        self.write(NEW, STARTED)
        known = await runs.history(OLD)
        assert (known.pipeline, known.state, list(known.workspaces)) == ("release", "failed", ["src"])
        assert (await runs.history(NEW)).state is None

    async def test_not_there(self, runs: Runs) -> None:
        """A run that is not there has no ledger to read, and is named."""
        with pytest.raises(StoreError, match=OLD):
            await runs.history(OLD)
