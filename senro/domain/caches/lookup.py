"""Which entry of a scratch cache a run starts with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Where = Literal["local", "remote"]
"""The store of an entry: this machine's, or the one of `SENRO_REMOTE_SCRATCH`."""


@dataclass(frozen=True, slots=True)
class ScratchEntry:
    """An entry, which never changes. `created` has a time zone."""

    key: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry, and its store."""

    entry: ScratchEntry
    where: Where


def ranked(key: str, prefixes: Sequence[str], candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The matching candidates, the best one first. The next one serves if an entry is damaged.

    First comes the entry of the key itself. Then follow, for each prefix, the entries whose key begins with it, the
    newest first, of equal age the greater key first; of one key the local entry is first.
    """
    left = list(candidates)
    found: list[Candidate] = []
    for prefix in (None, *prefixes):
        fits = [one for one in left if (one.entry.key == key if prefix is None else one.entry.key.startswith(prefix))]
        new = [one for one in fits if one not in found]
        newest: dict[str, datetime] = {}
        for one in new:
            newest[one.entry.key] = max(one.entry.created, newest.get(one.entry.key, one.entry.created))
        new.sort(key=lambda one: one.where)
        new.sort(key=lambda one: (newest[one.entry.key], one.entry.key), reverse=True)
        found += new
    return tuple(found)
