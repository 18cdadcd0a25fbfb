"""Which folders can hold what a pattern of `domain.excludes` matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.domain.tree.excludes import Excludes, compile_excludes

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
        for place, segment in enumerate(pattern.removesuffix("/").split("/")):
            if "**" in segment:
                break
            # At the front of a pattern it is a negation, which is refused; here any other character does as well.
            plain = f"?{segment[1:]}" if place and segment.startswith("!") else segment
            segments.append(compile_excludes([plain]))
        compiled.append(tuple(segments))
    return Reach(tuple(compiled))
