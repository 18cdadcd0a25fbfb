"""What a step's pod did to its scratch caches, brought back: whatever becomes of that, the step is unaffected."""

from __future__ import annotations

from collections.abc import Callable

from senro.app.attempt import Attempt
from senro.app.caches.caches import Content
from senro.app.pod.download import Download, ReadBackLost, ReadBackRefused
from senro.domain.manifests.pod import read_back
from senro.domain.pipeline.workspace import ScratchMount


async def bring_caches_back(attempt: Attempt, read: Callable[[int, str, str], Download]) -> None:
    """Call it after a step that succeeded, once its workspaces are back.

    `read` makes a reading of one volume, from its index, the folder to replace, and what messages call it.

    Each cache is read by an exec of its own: what is wrong with one keeps back neither another nor a workspace.
    """
    scratches, step, number = attempt.workspaces.scratches, attempt.step, attempt.identity.attempt
    for index, mount in read_back(step):
        if not isinstance(mount, ScratchMount):
            continue
        folder = await scratches.returning(step, number, mount.name)
        if not folder:
            continue
        attempt.phase(f"reading the scratch cache {mount.name} back")
        try:
            trees = await read(index, folder, f"the files of the scratch cache {mount.name}").run()
        except (ReadBackLost, ReadBackRefused) as error:
            await scratches.lost(step, number, mount.name, str(error))
        else:
            await scratches.returned(step, number, mount.name, Content(folder, trees[index]))
