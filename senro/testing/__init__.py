"""For tests of pipelines: an embedded cluster as a pytest fixture, and what a run did there, ready to be asserted.

`senro.testing.plugin` is loaded by pytest itself; docs/testing.md shows how it is used. Nothing is imported here until
it is asked for: pytest loads the plugin of every project in which senro is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from senro.testing.bench import Bench

__all__ = ["Bench"]


def __getattr__(name: str) -> object:
    if name == "Bench":
        from senro.testing.bench import Bench  # noqa: PLC0415 - only once somebody tests a pipeline

        return Bench
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
