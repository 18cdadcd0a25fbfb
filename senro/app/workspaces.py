"""The workspaces of a run: where their files lie, what they hold, and a snapshot of every state they were in."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from senro.app.recorder import Recorder
from senro.app.services import Services
from senro.domain.errors import TreeError
from senro.domain.events import SnapshotTaken, WorkspaceOpened
from senro.domain.excludes import DEFAULT_EXCLUDES
from senro.domain.names import label_value
from senro.domain.pipeline import Step
from senro.domain.plan import Plan
from senro.domain.podspec import carried, read_back
from senro.domain.tree import Tree
from senro.domain.workspace import Mount, Workspace
from senro.ports.trees import Packed

SAMPLE = 5
"""How many of the entries that a snapshot does not carry are named in the ledger."""


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace as it is now: its folder, what the folder holds, under which name the ledger knows it."""

    name: str
    folder: str
    tree: Tree


class Workspaces:
    """Opened once a run. No two steps that run at once mount one that either writes: the plan refuses it."""

    def __init__(self, services: Services, recorder: Recorder, base: str) -> None:
        self._services = services
        self._recorder = recorder
        self._base = base
        self._places: dict[str, Place] = {}

    async def open(self, plan: Plan) -> None:
        """Copy the first content of each into the run's folder. Raises `TreeError` naming what cannot be taken."""
        for workspace in plan.workspaces:
            place = await self._first(workspace)
            self._places[place.name] = place

    async def _first(self, workspace: Workspace) -> Place:
        trees = self._services.trees
        folder = self._services.ledger.workspace(workspace.name)
        source, tree = self._base, Tree()
        if workspace.path is not None:
            source = posixpath.join(self._base, workspace.path)
            tree = await trees.walk(source, exclude=(*DEFAULT_EXCLUDES, *self._runs_in(source), *workspace.exclude))
        await trees.copy(tree, source, folder)
        digest = await self._services.content.put(tree, folder)
        await self._recorder.record(
            WorkspaceOpened(
                at=self._recorder.now(),
                workspace=workspace.name,
                digest=digest,
                files=tree.files,
                bytes=tree.size,
                left_out=len(tree.left_out),
                sample=_sample(tree),
            )
        )
        return Place(workspace.name, folder, tree)

    def _runs_in(self, source: str) -> tuple[str, ...]:
        """The pattern for the folder of the runs, where it lies in `source`: a run is no part of what it runs on."""
        source = posixpath.normpath(source)
        run = posixpath.normpath(self._services.ledger.folder)
        inside = posixpath.relpath(posixpath.dirname(run), source)
        if inside == ".":
            inside = posixpath.basename(run)
        return () if inside.startswith("../") or inside == ".." else (f"{inside}/",)

    async def prepare(self, step: Step) -> None:
        """Give the step what it starts from: its own copy of a `step` workspace, the last snapshot of a `run` one.

        Call it before every attempt: a local attempt that failed may have left anything behind.
        """
        for mount in step.mounts:
            workspace = mount.workspace
            if workspace.scope == "step":
                first = self._places[workspace.name]
                name = f"{workspace.name}@{step.id}"
                folder = self._services.ledger.workspace(label_value(name))
                tree = await self._services.content.restore(first.tree.digest, folder)
                self._places[name] = Place(name, folder, tree)

    async def restore(self, step: Step) -> None:
        """Undo what an attempt did to the step's workspaces on this machine."""
        for mount in step.mounts:
            place = self.place(step, mount)
            await self._services.content.restore(place.tree.digest, place.folder)

    def place(self, step: Step, mount: Mount) -> Place:
        """Where the step's mount has its files."""
        name = mount.workspace.name
        return self._places[f"{name}@{step.id}" if mount.workspace.scope == "step" else name]

    def packed(self, step: Step) -> tuple[Packed, ...]:
        """What crosses into the step's pod."""
        places = ((index, self.place(step, mount)) for index, mount in carried(step))
        return tuple(Packed(index, place.folder, place.tree) for index, place in places)

    def returning(self, step: Step) -> Mapping[int, str]:
        """The folders that what comes back from the step's pod replaces, by index."""
        return {index: self.place(step, mount).folder for index, mount in read_back(step)}

    async def returned(self, step: Step, attempt: int, trees: Mapping[int, Tree]) -> None:
        """Take a snapshot of what came back and is in place already."""
        for index, mount in read_back(step):
            await self._snapshot(step, attempt, mount, trees[index])

    async def keep(self, step: Step, attempt: int) -> None:
        """Take a snapshot of each workspace that a local step mounted read-write. Raises `TreeError`."""
        for mount in step.mounts:
            if mount.mode == "rw":
                tree = await self._services.trees.walk(self.place(step, mount).folder)
                await self._snapshot(step, attempt, mount, tree)

    async def written_through(self, step: Step) -> tuple[str, ...]:
        """The names of workspaces that a local step mounted read-only and changed all the same; they are put right."""
        changed = []
        for mount in step.mounts:
            place = self.place(step, mount)
            if mount.mode == "ro" and await self._differs(place):
                changed.append(mount.workspace.name)
                await self._services.content.restore(place.tree.digest, place.folder)
        return tuple(changed)

    async def _differs(self, place: Place) -> bool:
        try:
            tree = await self._services.trees.walk(place.folder)
        except TreeError:
            return True  # what was put in place could be walked
        return tree.digest != place.tree.digest

    async def _snapshot(self, step: Step, attempt: int, mount: Mount, tree: Tree) -> None:
        place = self.place(step, mount)
        digest = await self._services.content.put(tree, place.folder)
        self._places[place.name] = Place(place.name, place.folder, tree)
        await self._recorder.record(
            SnapshotTaken(
                at=self._recorder.now(),
                step=step.id,
                attempt=attempt,
                workspace=place.name,
                digest=digest,
                files=tree.files,
                bytes=tree.size,
                left_out=len(tree.left_out),
                sample=_sample(tree),
            )
        )

    def summary(self, plan: Plan) -> dict[str, tuple[str, str]]:
        """Each workspace of the run by name: the digest of its newest snapshot, and its folder."""
        return {
            workspace.name: (self._places[workspace.name].tree.digest, self._places[workspace.name].folder)
            for workspace in plan.workspaces
            if workspace.name in self._places
        }


def _sample(tree: Tree) -> tuple[str, ...]:
    """Some of what was left out, as text that JSON can hold."""
    named = (f"{path}: {reason}" for path, reason in tree.left_out[:SAMPLE])
    return tuple(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in named)
