"""The version of this package. pyproject.toml has the same one; a test compares them."""

from __future__ import annotations

__version__ = "0.1.0"
