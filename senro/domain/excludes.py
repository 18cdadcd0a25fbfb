"""Which paths of a folder stay behind.

A pattern is matched against the whole relative path of an entry, from its first character to its last:

- `*` is any run of characters without a `/`, `?` is one character that is no `/`;
- `**` also crosses `/`; as a whole segment it stands for any number of segments, none included, so `**/*.pyc` is
  every such file and `*.pyc` only those at the top; `build/**` is everything in `build`, but not `build` itself;
- a trailing `/` makes the pattern match directories only;
- every other character is itself: there are no classes, no braces and no escapes.

What lies under an excluded directory is excluded too, and there is no negation: nothing can be brought back, so a
walk never enters an excluded directory. Patterns are compared with names as they are, by case and code points.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.domain.errors import PlanError, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_EXCLUDES = ("**/.git", "**/node_modules")
"""What a workspace leaves behind unless it says otherwise, at any depth: submodules and monorepos nest them. Of any
kind: a worktree's `.git` is a file, and a linked `node_modules` mostly leaves the tree."""

_WORD = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")


@dataclass(frozen=True, slots=True)
class Excludes:
    """Compiled patterns. Made by `compile_excludes`."""

    _directories: re.Pattern[str]
    _others: re.Pattern[str]

    def matches(self, path: str, *, directory: bool) -> bool:
        """Whether the entry at `path` stays behind, for its own sake or because it lies in an excluded directory."""
        return bool((self._directories if directory else self._others).fullmatch(path))


def compile_excludes(patterns: Sequence[str]) -> Excludes:
    """Compile the patterns; raises `PlanError` with a refusal (rule `exclude`) for each that cannot be one."""
    refusals = exclude_refusals("exclude", patterns)
    if refusals:
        raise PlanError(refusals)
    directories = []
    others = []
    for pattern in patterns:
        body = _translate(pattern.removesuffix("/"))
        directories.append(f"{body}(?:/.*)?")
        others.append(f"{body}/.*" if pattern.endswith("/") else f"{body}(?:/.*)?")
    return Excludes(_any(directories), _any(others))


def exclude_refusals(where: str, patterns: Sequence[str]) -> tuple[Refusal, ...]:
    """A refusal, naming `where`, for each pattern that has no meaning here, and none for the others."""
    refusals = []
    for pattern in patterns:
        problem = pattern_problem(pattern)
        if problem:
            refusals.append(Refusal(where, "exclude", f"the exclude pattern {pattern!r} {problem}"))
    return tuple(refusals)


def pattern_problem(pattern: str) -> str:
    """Why the pattern has no meaning, as the end of a sentence that begins with it; "" where it has one."""
    segments = pattern.removesuffix("/").split("/")
    if not pattern:
        return "is empty; leave it out"
    if pattern.startswith("!"):
        return "is a negation, which there is not; name what stays behind instead (`?` matches a leading `!`)"
    if pattern.startswith("/"):
        return "begins with `/`; patterns are relative to the folder, so write it without"
    if "\0" in pattern or "\\" in pattern:
        return "holds a NUL or a backslash; separate folders by `/`, there are no escapes"
    if "" in segments or "." in segments or ".." in segments:
        return "has an empty, `.` or `..` segment and would match nothing"
    if "***" in pattern:
        return "has three stars in a row; `*` stays within a folder, `**` crosses folders"
    return ""


def _translate(pattern: str) -> str:
    parts = []
    for match in _WORD.finditer(pattern):
        word = match[0]
        starts_segment = match.start() == 0 or pattern[match.start() - 1] == "/"
        if word == "**/":
            parts.append("(?:.*/)?" if starts_segment else ".*/")
        elif word == "**":
            parts.append(".*")
        elif word == "*":
            parts.append("[^/]*")
        elif word == "?":
            parts.append("[^/]")
        else:
            parts.append(re.escape(word))
    return "".join(parts)


def _any(alternatives: Sequence[str]) -> re.Pattern[str]:
    # Names may hold newlines, so `.` must match them. Without a pattern nothing matches.
    return re.compile("|".join(f"(?:{one})" for one in alternatives) or "(?!)", re.DOTALL)
