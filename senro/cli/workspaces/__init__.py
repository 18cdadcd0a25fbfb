"""`senro ws`: the workspaces of earlier runs, read from ledgers and the content store."""

from __future__ import annotations
