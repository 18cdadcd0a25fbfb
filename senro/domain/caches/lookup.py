"""Which entry of a scratch cache a run starts from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Where = Literal["local", "remote"]
"""The store that an entry lies in: this machine's, or the one of `SENRO_REMOTE_SCRATCH`."""


@dataclass(frozen=True, slots=True)
class ScratchEntry:
    """An entry as a lookup sees it. `created` has a zone; entries never change."""

    key: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry, and where it lies."""

    entry: ScratchEntry
    where: Where


def ranked(key: str, prefixes: Sequence[str], candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that fit, the best first: try the next one where an entry turns out to be damaged.

    The entry under the key itself comes first. Then, prefix by prefix, those whose key begins with it, the newest
    first; of one key the local one first. An entry of the same age as another is before it if its key is greater,
    so that the order is the same everywhere.
    """
    left = list(candidates)
    found: list[Candidate] = []
    for matching in ([one for one in left if one.entry.key == key], *(_under(left, prefix) for prefix in prefixes)):
        new = [one for one in matching if one not in found]
        newest: dict[str, datetime] = {}
        for one in new:
            newest[one.entry.key] = max(one.entry.created, newest.get(one.entry.key, one.entry.created))
        new.sort(key=lambda one: one.where)
        new.sort(key=lambda one: (newest[one.entry.key], one.entry.key), reverse=True)
        found += new
    return tuple(found)


def _under(candidates: Iterable[Candidate], prefix: str) -> list[Candidate]:
    return [one for one in candidates if one.entry.key.startswith(prefix)]
