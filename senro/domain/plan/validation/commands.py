"""The rules for a command: its words, its working directory, and its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote

STRING_BYTES: Final = 128 * 1024
"""The longest argument or `NAME=value` that Linux accepts, with its NUL (MAX_ARG_STRLEN)."""

TOTAL_BYTES: Final = 2 * 1024 * 1024
"""The limit for all of them, with a pointer each: a quarter of the usual 8 MiB stack (execve(2))."""

_POINTER_BYTES: Final = 8

MANIFEST_BYTES: Final = 1_250_000
"""The largest pod, as JSON. etcd stores 1.5 MiB, with what the cluster adds; for a larger object the apiserver answers
with a 500 that looks temporary (docs/design/api-rules.md#request-size)."""


def read_command(value: object, reader: FieldReader) -> tuple[str, ...]:
    """The words of the command."""
    if is_instance(value, str):
        reader.refuse(
            "command-text",
            f"the command is one string, {quote(value)}; write a list of words, e.g. ['sh', '-c', {quote(value)}]",
        )
        return ("x",)
    before = len(reader.refusals)
    words = reader.texts(value, "command")
    if len(reader.refusals) > before:
        return words
    if not words:
        reader.refuse("command-empty", "the command is empty; write a list of words, e.g. ['make', 'dist']")
    elif not words[0]:
        reader.refuse("command-program", "the command's first word is empty; write the program to run")
    return words


def read_workdir(value: object, reader: FieldReader, *, in_pod: bool) -> str | None:
    """The working directory, which must be absolute in a pod."""
    if value is None:
        return None
    workdir = reader.path(value, "workdir")
    if workdir is None:
        return "/"
    if not workdir:
        reader.refuse("workdir-empty", "workdir is empty; leave it out, or write a folder")
    elif in_pod and not workdir.startswith("/"):
        reader.refuse("workdir-relative", f"workdir {quote(workdir)} is not absolute; in a pod, begin it with `/`")
    return workdir


def refuse_manifest(size: int, reader: FieldReader) -> None:
    """Refuses a pod whose manifest has more bytes than a cluster stores."""
    if size > MANIFEST_BYTES:
        reader.refuse(
            "object-size",
            f"the pod has {size} bytes as JSON; a cluster stores about {MANIFEST_BYTES}; "
            "put what is large in a file of a mount",
        )


def refuse_sizes(command: Sequence[str], environment: Mapping[str, str], reader: FieldReader) -> None:
    """Refuses what Linux does not start (E2BIG): a string of more than 128 KiB, or more than 2 MiB in total."""
    strings = [(f"word {place} of the command", word) for place, word in enumerate(command)]
    strings += [(f"the variable {name} with its name", f"{name}={value}") for name, value in environment.items()]
    total = 0
    for what, text in strings:
        size = len(text.encode()) + 1
        total += size + _POINTER_BYTES
        if size > STRING_BYTES:
            reader.refuse(
                "string-size",
                f"{what} has {size - 1} bytes; a kernel takes at most {STRING_BYTES - 1}; put it in a file of a mount",
            )
    if total > TOTAL_BYTES:
        reader.refuse(
            "total-size",
            f"command and environment have {total} bytes together; a kernel takes at most {TOTAL_BYTES}; "
            "put what is large in a file of a mount",
        )
