"""Which directories can contain what exclude patterns match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from senro.domain.tree.excludes import Excludes, compile_excludes


@dataclass(frozen=True, slots=True)
class Reach:
    """Patterns, each as its segments up to the first that crosses directories. Made by `reach_of`."""

    _patterns: tuple[tuple[Excludes, ...], ...]

    def enters(self, directory: str) -> bool:
        """Whether one of the patterns may match something below the directory at this relative path."""
        names = directory.split("/")
        return any(
            all(segment.matches(name, directory=True) for segment, name in zip(pattern, names, strict=False))
            for pattern in self._patterns
        )


def reach_of(patterns: Sequence[str]) -> Reach:
    """The reach of all patterns. Raises `PlanError` like `compile_excludes`."""
    compiled = []
    for pattern in patterns:
        segments = []
        for place, segment in enumerate(pattern.removesuffix("/").split("/")):
            if "**" in segment:
                break
            # `!` is refused at the beginning of a pattern, and `?` matches it.
            plain = f"?{segment[1:]}" if place and segment.startswith("!") else segment
            segments.append(compile_excludes([plain]))
        compiled.append(tuple(segments))
    return Reach(tuple(compiled))
