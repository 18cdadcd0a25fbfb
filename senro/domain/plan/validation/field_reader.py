"""Reads values of any type as the types that they should have, and refuses the others.

A refused value is replaced by a valid one, so that the remaining rules can be checked although no plan is built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeGuard, TypeVar

from senro.domain.errors import Refusal

T = TypeVar("T")

LONGEST_SECONDS: Final = 2_147_483_647
"""68 years: the apiserver's limit for a deadline, and so for every duration in it."""

_SHOWN_CHARACTERS: Final = 60
_LARGE_BITS: Final = 64
_NAME_BYTES: Final = 253
_NAMED_STEPS: Final = 3


def is_instance(value: object, kind: type[T]) -> TypeGuard[T]:
    """`isinstance` by the type of the value, whatever its `__class__` is."""
    return issubclass(type(value), kind)


def quote(value: object) -> str:
    """A value for a message, cut to a limit. It never calls an unknown `__repr__`, which may raise or show a secret."""
    if is_instance(value, str):
        text = str.__str__(value)
        return repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}..."
    if value is None or is_instance(value, bool):
        return str(value)
    if is_instance(value, int):
        return int.__repr__(value) if value.bit_length() <= _LARGE_BITS else f"a number of {value.bit_length()} bits"
    if is_instance(value, float):
        return float.__repr__(value)
    return f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class FieldReader:
    """Reads the fields of a step, target or workflow.

    `where`: its name.
    `refusals`: the list to which refusals are added.
    `also`: the end of every message, which names the other steps with the same value.
    """

    where: str
    refusals: list[Refusal]
    also: str = ""

    def refuse(self, rule: str, message: str) -> None:
        """Adds a refusal."""
        self.refusals.append(Refusal(self.where, rule, message + self.also))

    def text_or_none(self, value: object, what: str) -> str | None:
        """`value` as text that a process and the apiserver accept; None if it is refused."""
        if not is_instance(value, str):
            self.refuse("type", f"{what} is {quote(value)}; write text, in quotes")
            return None
        text = str.__str__(value)
        if "\0" in text:
            self.refuse("nul", f"{what} contains a NUL character; remove it")
            return None
        if any("\ud800" <= character <= "\udfff" for character in text):
            self.refuse("text", f"{what} contains half of a surrogate pair, which UTF-8 cannot encode; remove it")
            return None
        return text

    def text(self, value: object, what: str, otherwise: str = "x") -> str:
        """Like `text_or_none`, but `otherwise` if it is refused."""
        text = self.text_or_none(value, what)
        return otherwise if text is None else text

    def path(self, value: object, what: str) -> str | None:
        """`value`, text or an object with `__fspath__`, as text; None if it is refused."""
        spelled = getattr(type(value), "__fspath__", None)
        if spelled is not None:
            try:
                value = spelled(value)
            except Exception:  # noqa: BLE001 - a foreign method may raise anything
                value = None
        return self.text_or_none(value, what)

    def name(self, value: object, what: str, otherwise: str) -> str:
        """`value` as the name of a pipeline, workflow or step: printable text without blanks around it."""
        text = self.text(value, what, otherwise)
        problem = ""
        if not text:
            problem = "is empty"
        elif not text.isprintable() or text != text.strip():
            problem = "has blanks around it, or characters that cannot be seen"
        elif len(text.encode()) > _NAME_BYTES:
            problem = f"is longer than {_NAME_BYTES} bytes"
        if problem:
            self.refuse("name", f"{what} {problem}; give it a short name such as 'build'")
            return otherwise
        return text

    def items(self, value: object, what: str) -> tuple[object, ...]:
        """`value`, a sequence, as a tuple."""
        if not _is_sequence(value) or any(is_instance(value, kind) for kind in (str, bytes, bytearray)):
            self.refuse("type", f"{what} is {quote(value)}; write a list")
            return ()
        try:
            return tuple(value)
        except Exception:  # noqa: BLE001 - a foreign sequence may raise anything
            self.refuse("type", f"{what} cannot be read; write a list")
            return ()

    def texts(self, value: object, what: str) -> tuple[str, ...]:
        """`value`, a sequence of texts, as a tuple without the entries that are refused."""
        found = (
            self.text_or_none(item, f"entry {place} of {what}") for place, item in enumerate(self.items(value, what))
        )
        return tuple(text for text in found if text is not None)

    def mapping(self, value: object, what: str) -> dict[str, object]:
        """`value`, a mapping with texts as keys, as a dict without the entries whose key is refused."""
        try:
            entries = dict(value) if _is_mapping(value) else None
        except Exception:  # noqa: BLE001 - a foreign mapping may raise anything
            entries = None
        if entries is None:
            self.refuse("type", f"{what} is {quote(value)}; write a mapping such as {{'NAME': 'value'}}")
            return {}
        found: dict[str, object] = {}
        for key, entry in entries.items():
            text = self.text_or_none(key, f"a key of {what}")
            if text is not None:
                found[text] = entry
        return found

    def flag(self, value: object, what: str) -> bool:
        """`value` as True or False."""
        if not is_instance(value, bool):
            self.refuse("type", f"{what} is {quote(value)}; write True or False")
        return value is True

    def one_of(self, value: object, what: str, choices: Sequence[str], rule: str) -> str:
        """`value` as one of `choices`; the first one if it is refused."""
        if is_instance(value, str) and value in choices:
            return str.__str__(value)
        self.refuse(rule, f"{what} is {quote(value)}; write one of {', '.join(map(repr, choices))}")
        return choices[0]

    def integer(self, value: object, what: str, rule: str, least: int, most: int) -> int:
        """`value` as a whole number from `least` to `most`."""
        if is_instance(value, int) and not is_instance(value, bool) and least <= value <= most:
            return int(value)
        self.refuse(rule, f"{what} is {quote(value)}; write a whole number from {least} to {most}")
        return least

    def number(self, value: object, what: str, rule: str, least: float, most: float) -> float:
        """`value` as a finite number from `least` to `most`."""
        if _is_number(value) and least <= value <= most:
            return float(value)
        self.refuse(rule, f"{what} is {quote(value)}; write a number from {least:g} to {most:g}")
        return least

    def seconds(self, value: object, what: str, rule: str, *, zero: bool = False) -> float:
        """`value`, a number or a timedelta, as seconds: more than 0 (or 0 with `zero`), at most 68 years."""
        if is_instance(value, timedelta):
            value = value.total_seconds()
        if _is_number(value) and value <= LONGEST_SECONDS and (value > 0 or (zero and value == 0)):
            return float(value)
        least = "0 or more" if zero else "more than 0"
        self.refuse(rule, f"{what} is {quote(value)}; write seconds, {least}, at most {LONGEST_SECONDS}")
        return 1.0


def name_steps(steps: Sequence[str]) -> str:
    """The first three of `steps`, at least one, and how many more there are."""
    more = f" and {len(steps) - _NAMED_STEPS} more" if len(steps) > _NAMED_STEPS else ""
    return ", ".join(steps[:_NAMED_STEPS]) + more


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return issubclass(type(value), Sequence)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return issubclass(type(value), Mapping)


def _is_number(value: object) -> TypeGuard[int | float]:
    if is_instance(value, float):
        return math.isfinite(value)
    return is_instance(value, int) and not is_instance(value, bool)
