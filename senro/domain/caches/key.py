"""The key of a scratch cache: a text with calls such as `{{ hash_files('go.sum', 'tools/**') }}`.

::

    template   = { literal | "{{" call "}}" }
    call       = "hash_files" "(" pattern { "," pattern } [ "," ] ")"
    pattern    = "'" any but "'" "'"  |  '"' any but '"' '"'

Spaces are allowed between the tokens of a call. A literal has ASCII letters, digits and `. _ - + = @`, since it becomes
part of names of files and objects.

`hash_files` is the sha256, as 64 hexadecimal digits, of the names and contents of the files that match any of its
patterns. These are the patterns of `senro.domain.tree.excludes`, so `vendor` is every file below `vendor`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from senro.domain.errors import PlanError, Refusal
from senro.domain.tree.excludes import pattern_problem
from senro.domain.tree.paths import raw

LONGEST: Final = 200
"""Characters of a key: with a suffix it fits into a file name (255 bytes)."""

HASH_LENGTH: Final = 64
"""Characters of the value of a call."""

_LITERAL = re.compile(r"[A-Za-z0-9._+=@-]*")
_BLANKS = re.compile(r"\s*")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


@dataclass(frozen=True, slots=True)
class HashFiles:
    """A call, with the patterns of the files to hash."""

    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return f"hash_files({', '.join(map(repr, self.patterns))})"


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """A parsed key: literals and calls. Made by `compile_key`."""

    parts: tuple[str | HashFiles, ...]

    @property
    def calls(self) -> tuple[HashFiles, ...]:
        """Each distinct call once, in order."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, HashFiles)))

    def evaluate(self, hashes: Mapping[HashFiles, str]) -> str:
        """The key, with each call replaced by its value in `hashes`."""
        return "".join(part if isinstance(part, str) else hashes[part] for part in self.parts)


def compile_key(text: str) -> KeyTemplate:
    """Parses a key or a prefix. Raises `PlanError` with one refusal (rule `scratch-key`) if it is invalid."""
    parsed = _parse(text)
    if isinstance(parsed, _Problem):
        raise PlanError((Refusal("scratch cache", "scratch-key", f"{text!r} {parsed}"),))
    return parsed


def key_problem(text: str) -> str:
    """Why a key or a prefix is invalid, as the end of a sentence that begins with its name; "" if it is valid."""
    parsed = _parse(text)
    return "" if isinstance(parsed, KeyTemplate) else str(parsed)


def hash_of(contents: Mapping[str, str]) -> str:
    """The value of `hash_files` for files, given the digest of each by its path."""
    lines = (b"%b %d:%b\n" % (contents[path].encode(), len(raw(path)), raw(path)) for path in sorted(contents, key=raw))
    return hashlib.sha256(b"".join(lines)).hexdigest()


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is wrong, at which character (None: with the whole text), and what to write instead."""

    at: int | None
    words: str
    advice: str

    def __str__(self) -> str:
        where = "" if self.at is None else f" at character {self.at + 1}"
        return f"{self.words}{where}; {self.advice}"


def _parse(text: str) -> KeyTemplate | _Problem:
    parts: list[str | HashFiles] = []
    at = 0
    while at < len(text):
        if text.startswith("{{", at):
            called = _call(text, at)
            if isinstance(called, _Problem):
                return called
            call, at = called
            parts.append(call)
            continue
        literal = _match(_LITERAL, text, at)
        at += len(literal)
        parts.append(literal)
        if at < len(text) and not text.startswith("{{", at):
            return _Problem(at, f"has {text[at]!r}", f"use ASCII letters, digits, . _ - + = @ and {_EXAMPLE}")
    template = KeyTemplate(tuple(part for part in parts if part))
    length = sum(len(part) if isinstance(part, str) else HASH_LENGTH for part in template.parts)
    if not length:
        return _Problem(None, "is empty", f"write a text such as gomod-{_EXAMPLE}")
    if length > LONGEST:
        words = f"has {length} characters, counting {HASH_LENGTH} for each hash"
        return _Problem(None, words, f"{LONGEST} are the most")
    return template


_EXAMPLE: Final = "{{ hash_files('go.sum') }}"


def _call(text: str, start: int) -> tuple[HashFiles, int] | _Problem:
    """The call that begins with the braces at `start`, and the index of its end."""
    at = _skip(text, start + 2)
    word = _match(_WORD, text, at)
    if word != "hash_files":
        words = f"calls {word!r}" if word else "has no call"
        return _Problem(at, words, f"there is only hash_files, as in {_EXAMPLE}")
    at = _skip(text, at + len(word))
    if not text.startswith("(", at):
        return _Problem(at, "has no `(`", f"write {_EXAMPLE}")
    at = _skip(text, at + 1)
    patterns = []
    while quoted := _QUOTED.match(text, at):
        pattern = quoted[1] or quoted[2] or ""
        negation = "is a negation, which there is not; name the files that count"
        problem = negation if pattern.startswith("!") else pattern_problem(pattern)
        if problem:
            return _Problem(at, f"has the pattern {pattern!r}", f"it {problem}")
        patterns.append(pattern)
        at = _skip(text, quoted.end())
        if not text.startswith(",", at):
            break
        at = _skip(text, at + 1)
    if not text.startswith(")", at):
        return _Problem(at, "has no `)`", "quote each pattern and separate them by commas")
    if not patterns:
        return _Problem(at, "hashes no files", f"name one, as in {_EXAMPLE}")
    at = _skip(text, at + 1)
    if not text.startswith("}}", at):
        return _Problem(at, "has no `}}`", f"end the call as in {_EXAMPLE}")
    return HashFiles(tuple(patterns)), at + 2


def _match(words: re.Pattern[str], text: str, at: int) -> str:
    match = words.match(text, at)
    return match[0] if match else ""


def _skip(text: str, at: int) -> int:
    return at + len(_match(_BLANKS, text, at))


@dataclass(frozen=True, slots=True)
class CacheKeys:
    """The evaluated key and restore keys of a cache."""

    key: str
    prefixes: tuple[str, ...] = ()
