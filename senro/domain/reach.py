"""Which folders can hold what a pattern of `domain.excludes` matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.domain.excludes import Excludes, compile_excludes

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Reach:
    """Compiled patterns, each as its segments up to the first that crosses folders. Made by `reach_of`."""

    _patterns: tuple[tuple[Excludes, ...], ...]

    def enters(self, directory: str) -> bool:
        """Whether anything below the directory, at this relative path, may be matched by one of the patterns."""
        names = directory.split("/")
        return any(
            all(segment.matches(name, directory=True) for segment, name in zip(pattern, names, strict=False))
            for pattern in self._patterns
        )


def reach_of(patterns: Sequence[str]) -> Reach:
    """The reach of the patterns together. Raises `PlanError` as `compile_excludes` does."""
    compiled = []
    for pattern in patterns:
        segments = []
        for segment in pattern.removesuffix("/").split("/"):
            if "**" in segment:
                break
            segments.append(compile_excludes([segment]))
        compiled.append(tuple(segments))
    return Reach(tuple(compiled))
