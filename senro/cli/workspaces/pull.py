"""`senro ws pull`: restores a workspace of a run into a folder."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread

from senro.app.workspaces.restore import restore_snapshot
from senro.cli.reporters.text import plural, printable, size
from senro.cli.workspaces.list import describe_state
from senro.cli.workspaces.lookup import Stored, describe_omitted, snapshots_of
from senro.domain.errors import TreeError

NOT_RESTORED = "A snapshot has no owners, times or extended attributes, and of the modes only the owner's x."


async def pull(stored: Stored, reference: str, name: str, destination: str | None, *, force: bool) -> list[str]:
    """Replaces `destination`, by default `./NAME`, by the newest snapshot of a workspace. Returns lines to print.

    The new folder is built next to the old one and verified before it takes its place, so that a failure changes
    nothing. Raises `TreeError` for a destination that is not empty, unless `force`, and for the working folder;
    `StoreError` for a missing or damaged snapshot; `UnknownNameError`.
    """
    _, history = await stored.run(reference)
    newest = snapshots_of(history, name)[-1]
    folder = destination or f"./{name}"
    await anyio.to_thread.run_sync(_check, Path(folder), force)
    tree, leftover = await restore_snapshot(stored.content, newest.digest, folder)
    lines = [
        f"{name}, {describe_state(newest)}: {plural(tree.files, 'file')}, {size(tree.size)}, in {printable(folder)}"
    ]
    if leftover:
        lines.append(f"The old content could not be removed: {leftover}")
    if note := describe_omitted(newest):
        lines.append(printable(note))
    return [*lines, NOT_RESTORED]


def _check(folder: Path, force: bool) -> None:  # noqa: FBT001 - run_sync passes by position
    here = Path.cwd()
    try:
        # Compared by inode: `..`, links and case-insensitive file systems give a folder several names.
        if folder.exists() and any(folder.samefile(one) for one in (here, *here.parents)):
            message = "this is or contains the working folder, which senro does not replace; name another folder"
            raise TreeError(str(folder), "destination", message)
        empty = next(folder.iterdir(), None) is None
    except (FileNotFoundError, NotADirectoryError):
        return  # Nothing is there, or it is no folder, which `restore_snapshot` refuses.
    except OSError as error:
        raise TreeError(str(folder), "io", error.strerror or str(error)) from error
    if not empty and not force:
        raise TreeError(str(folder), "destination", "it is not empty; write --force to replace it and all its files")
