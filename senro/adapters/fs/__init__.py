"""Folders of this machine: trees and their archives, the content store, run folders."""

from __future__ import annotations

from senro.adapters.fs.trees import FolderTrees

__all__ = ["FolderTrees"]
