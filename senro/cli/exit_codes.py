"""The exit codes of the command line."""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
"""The command did what was asked; the run succeeded."""

FAILED: Final = 1
"""The run failed, or `ws diff` found a difference."""

REFUSED: Final = 2
"""The usage was wrong, or senro refused before it started anything."""

CANCELLED: Final = 130
"""The run was cancelled, or Ctrl-C ended the command."""
