"""Adapters for folders of this machine: trees and their archives, the cache folder, the folders of runs."""

from __future__ import annotations

from senro.adapters.fs.cache import FolderCache
from senro.adapters.fs.key_files import FolderKeyFiles
from senro.adapters.fs.ledger import open_run_folder
from senro.adapters.fs.persistent import FolderPersistentStore
from senro.adapters.fs.registry import register_run
from senro.adapters.fs.runs import FolderRuns
from senro.adapters.fs.scratch_store import FolderScratchStore
from senro.adapters.fs.store import FolderContentStore
from senro.adapters.fs.trees import FolderTrees

__all__ = [
    "FolderCache",
    "FolderContentStore",
    "FolderKeyFiles",
    "FolderPersistentStore",
    "FolderRuns",
    "FolderScratchStore",
    "FolderTrees",
    "open_run_folder",
    "register_run",
]
