"""`senro cache gc`: drop what nobody needs and nobody used for long, and say what that freed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import click

from senro.api.wiring import cache_in, persistent_store, system_clock
from senro.cli.reporters.text import plural, printable, size
from senro.domain.caches.gc import Sweep, sweep
from senro.domain.caches.persistent import PersistentRecord, exceeded
from senro.domain.errors import ConfigurationError, Refusal, StoreError, TreeError
from senro.domain.kube.quantities import parse_quantity
from senro.domain.run.events import timestamp
from senro.domain.text.age import parse_age
from senro.ports.cache import Cache, Keeper
from senro.ports.clock import Clock
from senro.ports.persistent import PersistentStore

_KINDS = {"snapshot": ("snapshot", "snapshots"), "scratch": ("scratch entry", "scratch entries")}


@dataclass(frozen=True, slots=True)
class Expired:
    """Persistent workspaces: the names of those `evicted`, the bytes that `freed`, why others could not be seen to."""

    evicted: tuple[str, ...]
    freed: int
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """What one round came to. `persistent` is what became of persistent workspaces; `freed` counts their bytes too."""

    decision: Sweep
    keepers: tuple[Keeper, ...]
    persistent: Expired
    freed: int


def collect(max_age: str, max_size: str | None, *, dry_run: bool) -> int:
    """Read the bounds, do it, print what it came to. Returns the exit code."""
    age, most = _bounds(max_age, max_size)
    cache, store, clock = cache_in(os.environ), persistent_store(os.environ), system_clock()

    async def call() -> Collected:
        return await collected(cache, store, clock, max_age=age, max_size=most, dry_run=dry_run)

    click.echo("\n".join(told(anyio.run(call), max_size=most, dry_run=dry_run)))
    return 0


async def collected(
    cache: Cache, store: PersistentStore, clock: Clock, *, max_age: float, max_size: int | None, dry_run: bool
) -> Collected:
    """Persistent workspaces by their own bounds, everything else by these; with `dry_run` nothing is removed."""
    persistent = await _expired(store, clock, dry_run=dry_run)
    async with cache.collecting() as collection:
        survey = await collection.survey()
        now = clock.now().timestamp()
        decision = sweep(survey.items, survey.bodies, now=now, max_age=max_age, max_size=max_size)
        if not dry_run:
            await collection.drop(decision)
    return Collected(decision, survey.keepers, persistent, persistent.freed + decision.freed)


async def _expired(store: PersistentStore, clock: Clock, *, dry_run: bool) -> Expired:
    """Evict the persistent workspaces that are older than they may be and that no run has, end evictions that were cut.

    One that cannot be seen to keeps nobody from the others.
    """

    def old(known: PersistentRecord) -> bool:
        return exceeded(known, now=clock.now().timestamp(), size=0) is not None

    evicted, freed, failed = [], 0, []
    # No others are leased for a look: a run that begins at this moment would be refused.
    names = {known.name for known in await store.records() if old(known)} | set(await store.names_to_repair())
    for name in sorted(names):
        try:
            async with store.lock(name, since=timestamp(clock.now())) as lock:
                found, record = await lock.inspect(), await lock.record()
                expired = found.content is not None and record is not None and old(record)
                if not dry_run:
                    there = await lock.repair()
                    if expired or not there:
                        await lock.evict()
        except ConfigurationError:
            continue  # a run has it, and sees to it when it ends
        except (StoreError, TreeError) as error:
            failed.append(f"persistent workspace {name}: {error}")
            continue
        freed += found.leftover
        if expired:
            evicted.append(name)
            freed += found.content or 0
    return Expired(tuple(evicted), freed, tuple(failed))


def told(done: Collected, *, max_size: int | None, dry_run: bool) -> list[str]:
    """What was dropped, what that freed, and for whom the rest is kept."""
    would, was = ("would drop", "would free") if dry_run else ("dropped", "freed")
    counts = Counter(item.kind for item in done.decision.items)
    parts = [f"{count} {_KINDS[kind][count > 1]}" for kind, count in sorted(counts.items(), reverse=True)]
    if evicted := done.persistent.evicted:
        parts.append(f"{plural(len(evicted), 'persistent workspace')} ({', '.join(evicted)})")
    lines = [f"{would} {_joined(parts) or 'nothing'}; {was} {size(done.freed)}, kept {size(done.decision.kept)}"]
    lines += [f"left as it is: {reason}" for reason in done.persistent.failed]
    if done.keepers:
        lines.append(
            "What these runs need is kept; one that did not end well lets go of it when its folder is removed:"
        )
        lines += [f"  {printable(one.run)}  {one.why}  {printable(one.folder)}" for one in done.keepers]
    if max_size is not None and done.decision.kept > max_size:
        lines.append(f"That is more than {size(max_size)}: all of it is needed.")
    return lines


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def _bounds(max_age: str, max_size: str | None) -> tuple[int, int | None]:
    refusals = []
    age = parse_age(max_age)
    if age is None:
        refusals.append(Refusal("--max-age", "age", f"`{max_age}` is no age; write `30d`, `12h` or seconds"))
    quantity = None if max_size is None else parse_quantity(max_size)
    if max_size is not None and (quantity is None or quantity < 0):
        refusals.append(Refusal("--max-size", "size", f"`{max_size}` is no size; write bytes, or such as `10Gi`"))
    if age is None or refusals:
        raise ConfigurationError(tuple(refusals))
    return age, None if quantity is None else int(quantity)
