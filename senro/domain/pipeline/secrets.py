"""Where a secret's value is to be read. Standard library only: pipeline files may make these values.

A reference never holds the value, except `value`, which exists for programs that already have it and which shows in no
repr. Values are read once a run, at the last moment, and never leave the coordinator but as files.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FileSecret:
    """The content of a file, byte for byte."""

    path: str


@dataclass(frozen=True, slots=True)
class VariableSecret:
    """The value of an environment variable of the coordinator, as UTF-8."""

    name: str


@dataclass(frozen=True, slots=True)
class ValueSecret:
    """A value that the program already has."""

    content: bytes = field(repr=False)


SecretReference = FileSecret | VariableSecret | ValueSecret
"""Where to read a secret."""


def file(path: str) -> FileSecret:
    """The secret is the content of the file at `path`, relative to the working folder."""
    return FileSecret(str(path))


def variable(name: str) -> VariableSecret:
    """The secret is the value of the environment variable `name`."""
    return VariableSecret(name)


def value(content: bytes | str) -> ValueSecret:
    """The secret is `content`; text is taken as UTF-8."""
    return ValueSecret(content.encode() if isinstance(content, str) else content)
