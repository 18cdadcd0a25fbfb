"""Downloads the scratch caches of a step that succeeded. A failure does not change the step's outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from senro.app.attempt import Attempt
from senro.app.caches.caches import CacheContent
from senro.app.pod.download import Download, DownloadFailed
from senro.app.workspaces.mount_transfer import MountTransfer
from senro.domain.pipeline.workspace import ScratchMount


async def download_caches(attempt: Attempt, download: Callable[[MountTransfer, str], Download]) -> None:
    """Download the scratch caches that have to be saved or handed on, each by an exec of its own.

    Call it after the workspaces were downloaded. `download` makes the download of one mount; its second argument is
    what messages call the files. A failed download is recorded and affects neither another cache nor a workspace.
    """
    caches, step, number = attempt.workspaces.scratch_caches, attempt.step, attempt.identity.attempt
    for each in attempt.mounts:
        if not (each.returns and isinstance(each.mount, ScratchMount)):
            continue
        name = each.mount.name
        folder = await caches.download_folder(step, number, name)
        if not folder:
            continue
        attempt.report_phase(f"reading the scratch cache {name} back")
        try:
            trees = await download(replace(each, folder=folder), f"the files of the scratch cache {name}").run()
        except DownloadFailed as error:
            await caches.record_lost(step, number, name, str(error))
        else:
            await caches.save_download(step, number, name, CacheContent(folder, trees[each.index]))
