"""The version of this package. A test compares it with pyproject.toml."""

from __future__ import annotations

__version__ = "0.1.0"
