"""`senro cache gc`: removes what no run needs and what was not used for a long time from the cache."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import anyio
import click

from senro.api.wiring import cache_of, persistent_store, system_clock
from senro.cli.reporters.text import plural, printable, size
from senro.domain.caches.gc import Sweep, sweep
from senro.domain.caches.persistent import PersistentRecord, exceeded
from senro.domain.errors import ConfigurationError, Refusal, StoreError, TreeError
from senro.domain.kube.quantities import parse_quantity
from senro.domain.run.events import timestamp
from senro.domain.text.age import parse_age
from senro.ports.cache import Keeper
from senro.ports.clock import Clock
from senro.ports.persistent import PersistentStore

_KINDS = {"snapshot": ("snapshot", "snapshots"), "scratch": ("scratch entry", "scratch entries")}


@dataclass(frozen=True, slots=True)
class Evictions:
    """What became of the persistent workspaces.

    `names`: the workspaces that were evicted.
    `freed`: the bytes that evictions and repairs freed.
    `failures`: a message for each workspace that could not be repaired or evicted.
    """

    names: tuple[str, ...]
    freed: int
    failures: tuple[str, ...]


def collect(max_age: str, max_size: str | None, *, dry_run: bool) -> int:
    """Removes from the cache what the bounds allow, and prints a summary. Returns the exit code.

    `max_age` is an age such as `30d`, `max_size` a quantity such as `10Gi`. `dry_run` removes nothing. Raises
    `ConfigurationError` for a bound that is neither, `StoreError` if the cache cannot be read.
    """
    age, limit = _bounds(max_age, max_size)
    cache, store, clock = cache_of(os.environ), persistent_store(os.environ), system_clock()

    async def call() -> Iterator[str]:
        # First, since the snapshot of an evicted workspace is no longer needed.
        evictions = await _evict_expired(store, clock, dry_run=dry_run)
        async with cache.collecting() as collection:
            survey = await collection.survey()
            now = clock.now().timestamp()
            decision = sweep(survey.items, survey.bodies, now=now, max_age=age, max_size=limit)
            if not dry_run:
                await collection.drop(decision)
        return _summary(decision, survey.keepers, evictions, max_size=limit, dry_run=dry_run)

    click.echo("\n".join(anyio.run(call)))
    return 0


async def _evict_expired(store: PersistentStore, clock: Clock, *, dry_run: bool) -> Evictions:
    """Evicts the persistent workspaces past their `max_age` that no run uses, and completes interrupted evictions."""

    def expired(record: PersistentRecord) -> bool:
        return exceeded(record, now=clock.now().timestamp(), size=0) is not None

    evicted, freed, failures = [], 0, []
    # The lock of any other workspace is left alone: a run that starts at this moment would be refused.
    names = {record.name for record in await store.records() if expired(record)} | set(await store.names_to_repair())
    for name in sorted(names):
        try:
            async with store.lock(name, since=timestamp(clock.now())) as lock:
                found, record = await lock.inspect(), await lock.record()
                evict = found.content is not None and record is not None and expired(record)
                if not dry_run:
                    has_content = await lock.repair()
                    if evict or not has_content:
                        await lock.evict()
        except ConfigurationError:
            continue  # A run uses the workspace, and applies its bounds at its end.
        except (StoreError, TreeError) as error:
            failures.append(f"persistent workspace {name}: {error}")
            continue
        freed += found.leftover
        if evict:
            evicted.append(name)
            freed += found.content or 0
    return Evictions(tuple(evicted), freed, tuple(failures))


def _summary(
    decision: Sweep, keepers: Sequence[Keeper], evictions: Evictions, *, max_size: int | None, dry_run: bool
) -> Iterator[str]:
    """Yields lines: what was removed, the bytes freed, and the runs that the rest is kept for."""
    dropped, freed = ("would drop", "would free") if dry_run else ("dropped", "freed")
    counts = Counter(item.kind for item in decision.items)
    parts = [f"{count} {_KINDS[kind][count > 1]}" for kind, count in sorted(counts.items(), reverse=True)]
    if evictions.names:
        parts.append(f"{plural(len(evictions.names), 'persistent workspace')} ({', '.join(evictions.names)})")
    what = " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part) or "nothing"
    yield f"{dropped} {what}; {freed} {size(evictions.freed + decision.freed)}, kept {size(decision.kept)}"
    yield from (f"left unchanged: {failure}" for failure in evictions.failures)
    if keepers:
        yield "Kept for these runs; the folder of a run that did not succeed can be removed to release its snapshots:"
        yield from (f"  {printable(one.run)}  {one.why}  {printable(one.folder)}" for one in keepers)
    if max_size is not None and decision.kept > max_size:
        yield f"This is more than {size(max_size)}, but all of it is needed."


def _bounds(max_age: str, max_size: str | None) -> tuple[int, int | None]:
    refusals = []
    age = parse_age(max_age)
    if age is None:
        refusals.append(
            Refusal("--max-age", "age", f"`{max_age}` is no age; write an age such as `30d` or `12h`, or seconds")
        )
    quantity = None if max_size is None else parse_quantity(max_size)
    if max_size is not None and (quantity is None or quantity < 0):
        refusals.append(
            Refusal("--max-size", "size", f"`{max_size}` is no size; write bytes, or a quantity such as `10Gi`")
        )
    if age is None or refusals:
        raise ConfigurationError(tuple(refusals))
    return age, None if quantity is None else int(quantity)
