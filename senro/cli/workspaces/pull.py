"""`senro ws pull`: a workspace as a run left it, in a folder of one's own."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread

from senro.app.workspaces.restore import restore_snapshot
from senro.cli.reporters.text import plural, printable, size
from senro.cli.workspaces.list import wrote
from senro.cli.workspaces.lookup import Stored, omitted, snapshots_of
from senro.domain.errors import TreeError

LACKS = "A snapshot has no owners, times, extended attributes and no modes but the owner's x."


async def pull(stored: Stored, asked: str, name: str, destination: str | None, *, force: bool) -> list[str]:
    """Put the newest snapshot of a workspace in the place of `destination`, the workspace's name by default.

    Built beside it and verified against its digests, then swapped in, whole: a destination that holds something is
    refused unless `force`, and untouched by anything that fails. Raises `TreeError`, `StoreError`.
    """
    _, told = await stored.run(asked)
    newest = snapshots_of(told, name)[-1]
    folder = destination or f"./{name}"
    await anyio.to_thread.run_sync(_check, Path(folder), force)
    tree, leftover = await restore_snapshot(stored.content, newest.digest, folder)
    lines = [f"What was there before could not be removed: {leftover}"] if leftover else []
    head = f"{name}, {wrote(newest)}: {plural(tree.files, 'file')}, {size(tree.size)}, in {printable(folder)}"
    if words := omitted(newest):
        lines.append(f"When it was taken, {printable(words)}.")
    return [head, *lines, LACKS]


def _check(folder: Path, force: bool) -> None:  # noqa: FBT001 - run_sync passes by position
    here = Path.cwd()
    try:
        # By what they are: `..`, links and a file system that takes two names for one give a folder many names.
        if folder.exists() and any(folder.samefile(one) for one in (here, *here.parents)):
            message = "this is, or holds, the working folder, which is not replaced; name another one"
            raise TreeError(str(folder), "destination", message)
        empty = next(folder.iterdir(), None) is None
    except (FileNotFoundError, NotADirectoryError):
        return  # nothing there; what is no folder is refused by whoever would replace it
    except OSError as error:
        raise TreeError(str(folder), "io", error.strerror or str(error)) from error
    if not empty and not force:
        raise TreeError(
            str(folder), "destination", "it is not empty; write --force to replace it and all that it holds"
        )
