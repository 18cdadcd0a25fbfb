"""Folders of this machine: trees and their archives, the content store, run folders."""

from __future__ import annotations

from senro.adapters.fs.ledger import open_run_folder
from senro.adapters.fs.store import FolderContentStore
from senro.adapters.fs.trees import FolderTrees

__all__ = ["FolderContentStore", "FolderTrees", "open_run_folder"]
