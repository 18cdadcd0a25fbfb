"""Tests of pipelines on an embedded cluster. docs/testing.md shows how to write them.

pytest loads `senro.testing.plugin` in every project in which senro is installed, so nothing is imported here before it
is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from senro.testing.bench import Bench

__all__ = ["Bench"]


def __getattr__(name: str) -> object:
    if name == "Bench":
        from senro.testing.bench import Bench  # noqa: PLC0415 - imported on first use

        return Bench
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
