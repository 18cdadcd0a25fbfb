"""Exclude patterns: which paths of a folder do not belong to a workspace.

A pattern must match the whole relative path of an entry:

- `*` matches any characters but `/`, `?` matches one character but `/`;
- `**` matches `/` too; as a whole segment it matches any number of segments, so `**/*.pyc` is every such file, `*.pyc`
  only those at the top, and `build/**` everything in `build`, but not `build` itself;
- a pattern with a `/` at its end matches directories only;
- every other character matches itself: there are no classes, braces or escapes.

Everything in an excluded directory is excluded too. There is no negation, so no walk enters an excluded directory.
Matches are case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from senro.domain.errors import PlanError, Refusal
from senro.domain.tree.paths import text

DEFAULT_EXCLUDES = ("**/.git", "**/node_modules")
"""What every workspace excludes, at any depth, since submodules and monorepos nest them. The `.git` of a worktree is a
file, and a `node_modules` may be a link."""

IGNORE_FILE = ".senroignore"
"""The file with patterns, one per line, at the top of a workspace's initial content. It belongs to the workspace."""

IGNORE_BYTES = 64 * 1024
"""The size limit of such a file in bytes: every name of the workspace is compared with every pattern."""

_REMOTE_NAME = re.compile(r"(?:\*[^*]+|[^*]+\*?)\Z")

_WORD = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")


@dataclass(frozen=True, slots=True)
class Excludes:
    """Compiled patterns. Made by `compile_excludes`."""

    _directories: re.Pattern[str]
    _others: re.Pattern[str]

    def matches(self, path: str, *, directory: bool) -> bool:
        """Whether the entry at `path`, or a directory above it, is excluded."""
        return bool((self._directories if directory else self._others).fullmatch(path))


def compile_excludes(patterns: Sequence[str]) -> Excludes:
    """Compiles the patterns. Raises `PlanError` with a refusal (rule `exclude`) for each invalid one."""
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
    """A refusal for each invalid pattern; `where` is what it belongs to."""
    refusals = []
    for pattern in patterns:
        problem = pattern_problem(pattern)
        if problem:
            refusals.append(Refusal(where, "exclude", f"the exclude pattern {pattern!r} {problem}"))
    return tuple(refusals)


def ignored(where: str, content: bytes) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """The patterns of a `.senroignore`, and a refusal for each invalid line; `where` names the file.

    Blank lines and lines that begin with `#` are ignored (`?` matches a leading `#`), and so are white space at the end
    of a line and a byte order mark.
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
    """The values of `--exclude=` for the tar of a pod that packs the folders `roots`.

    `excludes` has the patterns of each folder; only a pattern that all of them have qualifies. GNU tar (unanchored, its
    wildcards match `/`) and busybox tar (fnmatch of every name, with FNM_PATHNAME and FNM_LEADING_DIR) agree with this
    module about `**/X` alone, for one name X of printable ASCII whose only wildcard is a `*` at one end. tar is given
    X, which must match no root, since tar compares roots too. What tar does not leave out is dropped on arrival. A
    busybox without FEATURE_TAR_FROM, such as Debian's, does not know the option.
    """
    first = excludes[0] if excludes else ()
    common = [pattern for pattern in dict.fromkeys(first) if all(pattern in others for others in excludes)]
    found = []
    for pattern in common:
        name = pattern.removeprefix("**/")
        if name != pattern and _means_the_same(name):
            excludes_it = compile_excludes([pattern])
            if not any(excludes_it.matches(root, directory=True) for root in roots):
                found.append(name)
    return tuple(found)


def _means_the_same(name: str) -> bool:
    plain = name.isascii() and name.isprintable() and not set(name) & set("/?[]\\")
    return plain and _REMOTE_NAME.match(name) is not None


def pattern_problem(pattern: str) -> str:
    """Why the pattern is invalid, as the end of a sentence that begins with it; "" if it is valid."""
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
    # Names may contain newlines, which `.` must match. Without patterns nothing matches.
    return re.compile("|".join(f"(?:{one})" for one in alternatives) or "(?!)", re.DOTALL)
