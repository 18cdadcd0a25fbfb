"""Folders of this machine: trees and their archives, the content store, scratch entries, run folders."""

from __future__ import annotations

from senro.adapters.fs.key_files import FolderKeyFiles
from senro.adapters.fs.ledger import open_run_folder
from senro.adapters.fs.scratch_store import FolderScratchStore
from senro.adapters.fs.store import FolderContentStore
from senro.adapters.fs.trees import FolderTrees

__all__ = ["FolderContentStore", "FolderKeyFiles", "FolderScratchStore", "FolderTrees", "open_run_folder"]
