"""The workspaces of a run: their folders on the coordinator, their content, and a snapshot of each state."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from senro.app.caches.caches import ScratchCaches
from senro.app.runtime.recorder import Recorder
from senro.app.runtime.services import Services
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.app.workspaces.persistent import PersistentWorkspaces
from senro.app.workspaces.restore import restore_snapshot
from senro.domain.errors import PlanError, Refusal, TreeError
from senro.domain.kube.names import label_value
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.step_mounts import claims_by_name, transferred_mounts, workspace_mounts
from senro.domain.pipeline.targets import Local
from senro.domain.pipeline.workspace import AnyMount, Mount, ScratchMount, Workspace
from senro.domain.plan.concurrency import concurrent_steps
from senro.domain.plan.plan import Plan
from senro.domain.run.events import SnapshotTaken, WorkspaceOpened
from senro.domain.tree.content_rules import KEEP_EVERYTHING, ContentRules, rules_of
from senro.domain.tree.excludes import IGNORE_BYTES, IGNORE_FILE, ignored
from senro.domain.tree.run_folders import runs_inside
from senro.domain.tree.tree import Tree

SAMPLE = 5
"""How many of the omitted entries of a snapshot are named in the ledger."""


@dataclass(frozen=True, slots=True)
class WorkspaceContent:
    """The present folder of a workspace, the folder's content, and the workspace's name in the ledger."""

    name: str
    folder: str
    tree: Tree


class Workspaces:
    """The workspaces of one run. Call `open` first.

    The plan refuses concurrent steps of which one may write to a workspace that both mount.
    """

    def __init__(self, services: Services, recorder: Recorder, base: str) -> None:
        self._services = services
        self._recorder = recorder
        self._base = base
        self._persistent = PersistentWorkspaces(services, recorder)
        self.scratch_caches = ScratchCaches(services, recorder)
        self._contents: dict[str, WorkspaceContent] = {}
        self._rules: dict[str, ContentRules] = {}
        self._mounted_concurrently: frozenset[tuple[str, str]] = frozenset()

    async def open(self, plan: Plan) -> None:
        """Copy the initial content of each workspace into the run's folder, unless a persistent one has content.

        Raises `TreeError` naming a file that cannot be copied, `PlanError` with all invalid lines of `.senroignore`
        files.
        """
        self._mounted_concurrently = _mounted_concurrently(plan)
        claims = {name for planned in plan.steps for name in claims_by_name(planned.step)}
        transferred = [workspace for workspace in plan.workspaces if workspace.name not in claims]
        await self._read_rules(transferred)
        for workspace in transferred:
            await self._open_workspace(workspace)

    async def _read_rules(self, workspaces: Sequence[Workspace]) -> None:
        refusals: list[Refusal] = []
        for workspace in workspaces:
            patterns: tuple[str, ...] = ()
            if workspace.path is not None:
                source = posixpath.join(self._base, workspace.path)
                content = await self._services.trees.read(source, IGNORE_FILE, limit=IGNORE_BYTES + 1)
                patterns, refused = ignored(posixpath.join(workspace.path, IGNORE_FILE), content or b"")
                refusals += [one for one in refused if one not in refusals]
            self._rules[workspace.name] = rules_of(workspace, patterns)
        if refusals:
            raise PlanError(tuple(refusals))

    async def _open_workspace(self, workspace: Workspace) -> None:
        rules, lock = self._rules[workspace.name], self._persistent.locks.get(workspace.name)
        folder = self._services.ledger.workspace(workspace.name) if lock is None else lock.folder
        reused = lock is not None and await self._persistent.open(workspace)
        if reused:
            tree = await self._services.trees.prune(folder, rules=rules)
        else:
            tree = await self._copy_first_content(workspace, folder, rules)
        digest = await self._services.content.put(tree, folder)
        await self._persistent.record_snapshot(workspace.name, digest)
        await self._recorder.record(
            WorkspaceOpened(
                at=self._recorder.now(),
                workspace=workspace.name,
                digest=digest,
                files=tree.files,
                bytes=tree.size,
                omitted=len(tree.omitted),
                omitted_sample=_omitted_sample(tree),
                reused=reused,
            )
        )
        self._contents[workspace.name] = WorkspaceContent(workspace.name, folder, tree)

    async def _copy_first_content(self, workspace: Workspace, folder: str, rules: ContentRules) -> Tree:
        """Create the folder with the initial content of the workspace."""
        trees, source, tree = self._services.trees, self._base, Tree()
        if workspace.path is not None:
            source = posixpath.join(self._base, workspace.path)
            runs = runs_inside(source, posixpath.dirname(self._services.ledger.folder))
            rules = replace(rules, exclude=(*rules.exclude, *runs))
            tree = await trees.walk(source, rules=rules)
        return await trees.copy(tree, source, folder, rules=rules)

    async def release(self) -> None:
        """Apply the bounds of persistent workspaces. Call it after the last step of a run that was not cancelled."""
        await self._persistent.release()

    async def prepare(self, step: Step, *, again: bool) -> tuple[MountTransfer, ...]:
        """Prepare the mounts of an attempt and return them. `again`: whether it is not the first attempt of the step.

        The step gets its own copy of a workspace of scope `step`, and of one that it mounts read-only as a local step
        while other steps may use it: on this machine a process cannot be kept from writing to a folder. In the other
        workspaces the changes of an earlier local attempt are undone.
        """
        await self.scratch_caches.prepare(step)
        for mount in workspace_mounts(step):
            shared, name = self._contents[mount.name], self._content_name(step, mount)
            if name != mount.name:
                folder = self._services.ledger.workspace(label_value(name))
                tree = await self._restore(shared.tree.digest, folder)
                self._contents[name] = WorkspaceContent(name, folder, tree)
            elif isinstance(step.on, Local):
                await self._persistent.record_change(mount.name)
                if again and mount.mode == "rw":
                    await self._restore(shared.tree.digest, shared.folder)
        return self.transfers(step)

    def transfers(self, step: Step) -> tuple[MountTransfer, ...]:
        """The mounts of a prepared step, in order, without its claims, whose files are in the cluster."""
        mounts = [(each, self._content(step, each.mount)) for each in transferred_mounts(step)]
        return tuple(
            MountTransfer(
                index=each.index,
                mount=each.mount,
                folder=content.folder,
                tree=content.tree,
                rules=self._rules_of(each.mount),
                returns=each.returns,
            )
            for each, content in mounts
        )

    async def restore(self, step: Step) -> None:
        """Undo the changes of a local attempt to the workspaces that it mounts read-write."""
        for mount in workspace_mounts(step):
            if mount.mode == "rw":
                content = self._content(step, mount)
                await self._restore(content.tree.digest, content.folder)
                await self._persistent.record_snapshot(content.name, content.tree.digest)

    async def _restore(self, digest: str, folder: str) -> Tree:
        """Replace the folder by the snapshot. Raises `TreeError` with the folder unchanged."""
        tree, leftover = await restore_snapshot(self._services.content, digest, folder)
        if leftover:
            await self._recorder.note(leftover)
        return tree

    def _content_name(self, step: Step, mount: Mount) -> str:
        """The name of the content that the step works with: the workspace's own, or that of the step's copy."""
        copied = mount.workspace.scope == "step"
        if isinstance(step.on, Local) and not copied:
            copied = step.no_snapshot if mount.mode == "rw" else (step.id, mount.name) in self._mounted_concurrently
        return f"{mount.name}@{step.id}" if copied else mount.name

    def _content(self, step: Step, mount: AnyMount) -> WorkspaceContent:
        """The folder and content of the step's mount."""
        if isinstance(mount, ScratchMount):
            content = self.scratch_caches.content(step, mount)
            return WorkspaceContent(mount.name, content.folder, content.tree)
        return self._contents[self._content_name(step, mount)]

    def _rules_of(self, mount: AnyMount) -> ContentRules:
        return self._rules[mount.name] if isinstance(mount, Mount) else KEEP_EVERYTHING

    async def keep(self, step: Step, attempt: int) -> None:
        """Take a snapshot of each workspace that a local step mounted read-write.

        Raises `TreeError`, and records no snapshot; the caller then calls `restore`.
        """
        if step.no_snapshot:
            return
        snapshots = []
        for mount in workspace_mounts(step):
            if mount.mode == "rw":
                folder = self._content(step, mount).folder
                snapshots.append((mount, await self._services.trees.prune(folder, rules=self._rules_of(mount))))
        await self.take_snapshots(step, attempt, snapshots)

    async def undo_read_only_changes(self, step: Step) -> tuple[str, ...]:
        """Restore the workspaces that a local step mounted read-only and changed. Returns their names."""
        changed = []
        for mount in workspace_mounts(step):
            if mount.mode == "rw":
                continue
            content = self._content(step, mount)
            if await self._differs(content, self._rules_of(mount)):
                changed.append(mount.name)
                await self._restore(content.tree.digest, content.folder)
            await self._persistent.record_snapshot(content.name, content.tree.digest)
        return tuple(changed)

    async def _differs(self, content: WorkspaceContent, rules: ContentRules) -> bool:
        try:
            # Excluded files count as changes too.
            tree = await self._services.trees.walk(content.folder, rules=ContentRules(links=rules.links))
        except TreeError:
            return True  # the snapshot that was restored could be walked
        # Omitted entries are not part of the digest, and a restored snapshot has none.
        return bool(tree.omitted) or tree.digest != content.tree.digest

    async def take_snapshots(self, step: Step, attempt: int, snapshots: Sequence[tuple[AnyMount, Tree]]) -> None:
        """Store the trees, which the folders of the mounts already contain, as the new snapshots of the workspaces.

        Every tree is stored before the first is recorded: the changes of a step are kept completely or not at all.
        Raises `TreeError` if a folder changed meanwhile.
        """
        for mount, tree in snapshots:
            await self._services.content.put(tree, self._content(step, mount).folder)
        for mount, tree in snapshots:
            await self._record_snapshot(step, attempt, replace(self._content(step, mount), tree=tree))

    async def _record_snapshot(self, step: Step, attempt: int, content: WorkspaceContent) -> None:
        tree, digest = content.tree, content.tree.digest
        self._contents[content.name] = content
        await self._persistent.record_snapshot(content.name, digest)
        await self._recorder.record(
            SnapshotTaken(
                at=self._recorder.now(),
                step=step.id,
                attempt=attempt,
                workspace=content.name,
                digest=digest,
                files=tree.files,
                bytes=tree.size,
                omitted=len(tree.omitted),
                omitted_sample=_omitted_sample(tree),
            )
        )

    def summary(self, plan: Plan) -> dict[str, tuple[str, str]]:
        """Each workspace of the run by name: the digest of its newest snapshot, and its folder, empty if evicted."""
        names = [workspace.name for workspace in plan.workspaces if workspace.name in self._contents]
        contents = {name: self._contents[name] for name in names}
        evicted = self._persistent.evicted
        return {name: (each.tree.digest, "" if name in evicted else each.folder) for name, each in contents.items()}


def _mounted_concurrently(plan: Plan) -> frozenset[tuple[str, str]]:
    """The pairs of a step and a workspace that it mounts, if a concurrent step mounts that workspace too."""
    mounted = {planned.step.id: {mount.name for mount in workspace_mounts(planned.step)} for planned in plan.steps}
    return frozenset(
        (step, name)
        for step, others in concurrent_steps(plan).items()
        for name in mounted[step]
        if any(name in mounted[other] for other in others)
    )


def _omitted_sample(tree: Tree) -> tuple[str, ...]:
    """Some of the omitted entries, as text that JSON can represent."""
    named = (f"{path}: {reason}" for path, reason in tree.omitted[:SAMPLE])
    return tuple(name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in named)
