"""`senro ws`: the workspaces of runs that were, from their ledgers and the content store alone."""

from __future__ import annotations
