"""The exit codes of the command line."""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
"""The command did what was asked; the run succeeded."""

FAILED: Final = 1
"""The run failed; of `ws diff`: something differs."""

REFUSED: Final = 2
"""Wrong usage, or senro refused before anything started."""

CANCELLED: Final = 130
"""The run was cancelled, or Ctrl-C ended the command."""
