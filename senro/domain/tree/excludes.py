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
from senro.domain.tree.paths import text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

DEFAULT_EXCLUDES = ("**/.git", "**/node_modules")
"""What a workspace leaves behind unless it says otherwise, at any depth: submodules and monorepos nest them. Of any
kind: a worktree's `.git` is a file, and a linked `node_modules` mostly leaves the tree."""

IGNORE_FILE = ".senroignore"
"""The file at the top of a workspace's first content that holds patterns, one a line. It travels itself."""

IGNORE_BYTES = 64 * 1024
"""Bytes that such a file may have: every name of the workspace is compared with every pattern."""

_FAR_NAME = re.compile(r"(?:\*[^*]+|[^*]+\*?)\Z")

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


def ignored(where: str, content: bytes) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """The patterns of a `.senroignore`, and a refusal, with its line's number, for each line that has no meaning.

    One pattern a line, in this module's words. Blank lines and lines that begin with `#` say nothing (`?` matches a
    leading `#`); white space at the end of a line is dropped, and so is a byte order mark. `where` names the file.
    """
    if len(content) > IGNORE_BYTES:
        return (), (Refusal(where, "exclude", f"it has more than {IGNORE_BYTES} bytes; no more are read"),)
    patterns = []
    refusals = []
    for number, line in enumerate(text(content).removeprefix("\ufeff").split("\n"), 1):
        pattern = line.rstrip()
        if not pattern or pattern.startswith("#"):
            continue
        problem = pattern_problem(pattern)
        if problem:
            refusals.append(Refusal(where, "exclude", f"line {number}: the pattern {pattern!r} {problem}"))
        else:
            patterns.append(pattern)
    return tuple(patterns), tuple(refusals)


def remote_excludes(excludes: Sequence[Collection[str]], roots: Collection[str]) -> tuple[str, ...]:
    """What a pod's tar may be told by `--exclude=` to leave out of an archive of the folders `roots`.

    `excludes` holds the patterns of each of these folders; only one that all of them have can be told. Of those,
    `**/X` alone means to GNU tar (unanchored, its wildcards match `/`) and to busybox tar (fnmatch at every name, with
    FNM_PATHNAME and FNM_LEADING_DIR) what it means here, for an X of one name, of printable ASCII, with no wildcard
    but one `*` at its begin or its end. It is X that tar is told; it must match no root, for tar matches those too.
    What tar is not told does cross, and is left out here. Ask first whether it can be told: a busybox that was built
    without FEATURE_TAR_FROM, such as Debian's, ends at the option.
    """
    first = excludes[0] if excludes else ()
    common = [pattern for pattern in dict.fromkeys(first) if all(pattern in others for others in excludes)]
    told = []
    for pattern in common:
        name = pattern.removeprefix("**/")
        if name != pattern and _means_the_same(name):
            excludes_it = compile_excludes([pattern])
            if not any(excludes_it.matches(root, directory=True) for root in roots):
                told.append(name)
    return tuple(told)


def _means_the_same(name: str) -> bool:
    plain = name.isascii() and name.isprintable() and not set(name) & set("/?[]\\")
    return plain and _FAR_NAME.match(name) is not None


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
