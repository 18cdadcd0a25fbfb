"""The composition root: the only module that creates adapters."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from senro.adapters.bucket import REMOTE_SCRATCH, open_scratch_store, read_location
from senro.adapters.clock import SystemClock, SystemRandomness
from senro.adapters.fs import (
    FolderCache,
    FolderContentStore,
    FolderKeyFiles,
    FolderPersistentStore,
    FolderRuns,
    FolderScratchStore,
    FolderTrees,
    open_run_folder,
    register_run,
)
from senro.adapters.process import LocalProcesses
from senro.adapters.secrets import LARGEST, PrivateSecretFiles, ReferencedSecrets
from senro.app.caches.keys import evaluate_keys
from senro.app.runtime.services import ClusterServices, ScratchServices, Services
from senro.domain.caches.key import CacheKeys
from senro.domain.errors import ConfigurationError, Refusal, StoreUnavailable
from senro.domain.pipeline.secrets import SecretReference
from senro.domain.pipeline.targets import Pod
from senro.domain.plan.plan import Plan
from senro.domain.run.events import timestamp
from senro.ports.reporter import Reporter
from senro.ports.secrets import SecretFiles

if TYPE_CHECKING:
    from senro.adapters.apiserver import Configuration
    from senro.ports.cache import Cache
    from senro.ports.clock import Clock, Randomness
    from senro.ports.persistent import PersistentStore, WorkspaceLock
    from senro.ports.pod_watch import PodWatch
    from senro.ports.runs import Runs
    from senro.ports.snapshots import ContentStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResources:
    """What a run needs.

    `services`: the ports.
    `values`: the values of the secrets by name, which the repr does not show.
    `secret_files`: writes the secrets of local steps.
    """

    services: Services
    values: Mapping[str, bytes] = field(repr=False)
    secret_files: SecretFiles


@asynccontextmanager
async def open_resources(
    plan: Plan,
    *,
    references: Mapping[str, SecretReference],
    run_dir: str,
    reporter: Reporter,
    environ: Mapping[str, str],
) -> AsyncIterator[RunResources]:
    """Opens everything that the plan needs, and checks it before the run's folder is created.

    Raises `ConfigurationError` with all problems of the variables, the secrets, the cache keys and the persistent
    workspaces at once; `ClusterError` if the apiserver does not answer; `StoreError` if a folder cannot be created.
    """
    clock, randomness = SystemClock(), SystemRandomness()
    needs_cluster = any(isinstance(planned.step.on, Pod) for planned in plan.steps)
    refusals: list[Refusal] = []
    configuration = None
    if needs_cluster:
        try:
            configuration = await anyio.to_thread.run_sync(_configuration, environ, clock)
        except ConfigurationError as error:
            refusals.extend(error.refusals)
    values = await _read_secrets(plan, ReferencedSecrets(references, environ), refusals)
    refusals.extend(_too_large(plan, values))
    cache = str(cache_folder(environ))
    scratch = await _scratch(plan, environ, run_dir, randomness, refusals)
    async with AsyncExitStack() as stack:
        locks = await _lock_workspaces(plan, cache, stack, timestamp(clock.now()), refusals)
        if refusals:
            raise ConfigurationError(tuple(refusals))
        pods = None
        if configuration is not None:
            pods = await stack.enter_async_context(_connected(configuration, clock, randomness))
        ledger = await stack.enter_async_context(open_run_folder(run_dir, now=clock.now(), token=randomness.token()))
        for lock in locks.values():
            await lock.record_holder(ledger.run_id)
        if plan.workspaces or plan.scratches:
            # Before the first snapshot, since `senro cache gc` keeps the snapshots of registered runs.
            await stack.enter_async_context(register_run(cache, ledger.run_id, ledger.folder))
        services = Services(
            ledger=ledger,
            trees=FolderTrees(),
            content=FolderContentStore(cache),
            processes=LocalProcesses(environ),
            clock=clock,
            randomness=randomness,
            reporter=reporter,
            pods=pods,
            persistent=locks,
            scratch=scratch,
        )
        yield RunResources(services=services, values=values, secret_files=PrivateSecretFiles())


async def _lock_workspaces(
    plan: Plan, cache: str, stack: AsyncExitStack, since: str, refusals: list[Refusal]
) -> dict[str, WorkspaceLock]:
    """Locks the plan's persistent workspaces, and adds a refusal for each that another run has.

    Every run locks in the same order, so that of two runs that start at once one gets all locks.
    """
    store = FolderPersistentStore(cache)
    locks = {}
    for workspace in plan.persistent_workspaces:
        try:
            lock = await stack.enter_async_context(store.lock(workspace.name, since=since))
        except ConfigurationError as error:
            refusals.extend(error.refusals)
        else:
            locks[workspace.name] = lock
    return locks


async def _scratch(
    plan: Plan, environ: Mapping[str, str], run_dir: str, randomness: Randomness, refusals: list[Refusal]
) -> ScratchServices | None:
    """Returns the keys and stores of the plan's scratch caches, after a check of the shared store, if there is one."""
    if not plan.scratches:
        return None
    cache, trees = str(cache_folder(environ)), FolderTrees()
    local = FolderScratchStore(cache, FolderContentStore(cache))
    keys: Mapping[str, CacheKeys] = {}
    remote, unavailable = None, None
    try:
        keys = await evaluate_keys(plan, FolderKeyFiles(), os.getcwd(), run_dir)  # noqa: PTH109 - the ports take a str
    except ConfigurationError as error:
        refusals.extend(error.refusals)
    try:
        location = read_location(environ)
        if location is not None:
            remote = open_scratch_store(location, environ, trees=trees, token=randomness.token)
            await remote.check(REMOTE_SCRATCH)
    except ConfigurationError as error:
        refusals.extend(error.refusals)
    except StoreUnavailable as error:
        remote, unavailable = None, error
    return ScratchServices(local=local, keys=keys, remote=remote, unavailable=unavailable)


def _configuration(environ: Mapping[str, str], clock: Clock) -> Configuration:
    # Importing httpx and cryptography takes a quarter of a second, which a local pipeline does not need.
    from senro.adapters.apiserver import read_configuration  # noqa: PLC0415 - see above

    return read_configuration(environ, now=clock.now())


@asynccontextmanager
async def _connected(
    configuration: Configuration, clock: Clock, randomness: Randomness
) -> AsyncIterator[ClusterServices]:
    from senro.adapters.apiserver import connect, watch_pod  # noqa: PLC0415 - as in `_configuration`

    async with connect(configuration, clock=clock, randomness=randomness) as cluster:
        await cluster.version()

        def watch(namespace: str, name: str, uid: str) -> PodWatch:
            return watch_pod(cluster, namespace, name, uid=uid, clock=clock)

        yield ClusterServices(cluster=cluster, watch=watch)


async def _read_secrets(plan: Plan, source: ReferencedSecrets, refusals: list[Refusal]) -> dict[str, bytes]:
    values = {}
    for name in plan.secrets:
        try:
            values[name] = await source.read(name)
        except ConfigurationError as error:
            refusals.extend(error.refusals)
    return values


def _too_large(plan: Plan, values: Mapping[str, bytes]) -> list[Refusal]:
    """Returns a refusal for each pod step whose secrets do not fit into one Secret."""
    refusals = []
    for planned in plan.steps:
        names = set(planned.step.secrets.values())
        size = sum(len(values.get(name, b"")) for name in names)
        if isinstance(planned.step.on, Pod) and size > LARGEST:
            message = f"its secrets have {size} bytes together; a Secret holds at most {LARGEST}"
            refusals.append(Refusal(f"step {planned.step.id}", "secret-size", message))
    return refusals


def runs_in(run_dir: str) -> Runs:
    """Returns the runs of a folder."""
    return FolderRuns(run_dir)


def content_store(environ: Mapping[str, str]) -> ContentStore:
    """Returns the snapshots in the cache folder."""
    return FolderContentStore(str(cache_folder(environ)))


def cache_of(environ: Mapping[str, str]) -> Cache:
    """Returns the cache folder as a whole, for its garbage collection."""
    return FolderCache(str(cache_folder(environ)))


def persistent_store(environ: Mapping[str, str]) -> PersistentStore:
    """Returns the persistent workspaces in the cache folder."""
    return FolderPersistentStore(str(cache_folder(environ)))


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Returns `SENRO_CACHE_DIR`, else `senro` in `XDG_CACHE_HOME` or `~/.cache`."""
    chosen = environ.get("SENRO_CACHE_DIR")
    if chosen:
        return Path(chosen).absolute()
    base = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - HOME may be unset
    return Path(base).absolute() / "senro"


def system_clock() -> SystemClock:
    """Returns the machine's clock, for a reporter, which is created before the run's services."""
    return SystemClock()
