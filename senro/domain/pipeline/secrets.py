"""References to the values of secrets.

Only `value` holds a value, for programs that have it already; no repr shows it. Values are read once per run, as late
as possible, and leave the coordinator only as files.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FileSecret:
    """The content of a file."""

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
"""A reference to a value."""


def file(path: str) -> FileSecret:
    """The content of the file at `path`, which is relative to the working directory."""
    return FileSecret(str(path))


def variable(name: str) -> VariableSecret:
    """The value of the environment variable `name`."""
    return VariableSecret(name)


def value(content: bytes | str) -> ValueSecret:
    """`content` itself; text is encoded as UTF-8."""
    return ValueSecret(content.encode() if isinstance(content, str) else content)
