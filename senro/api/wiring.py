"""The one module that knows the adapters: it fills the ports of a run."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
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
class Opened:
    """The services of a run, and the values of its secrets, which its repr does not show."""

    services: Services
    values: Mapping[str, bytes]
    secret_files: SecretFiles

    def __repr__(self) -> str:
        return f"<Opened run {self.services.ledger.run_id}>"


@asynccontextmanager
async def open_services(
    plan: Plan,
    *,
    references: Mapping[str, SecretReference],
    run_dir: str,
    reporter: Reporter,
    environ: Mapping[str, str],
) -> AsyncIterator[Opened]:
    """Everything that the plan needs, checked before the run's folder is made.

    Raises `ConfigurationError` with every problem of the cluster's variables and of the secrets at once, and each
    persistent workspace that another run has; a `ClusterError` where the apiserver does not answer, `StoreError` where
    the folders cannot be made.
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
            # Before the first snapshot: from now on nobody drops what this run puts.
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
        yield Opened(services=services, values=values, secret_files=PrivateSecretFiles())


async def _lock_workspaces(
    plan: Plan, cache: str, stack: AsyncExitStack, since: str, refusals: list[Refusal]
) -> dict[str, WorkspaceLock]:
    """The persistent workspaces, all of them before anything starts: nobody waits for the other half of what they need.

    In one order for every run, so that of two that begin at once one gets them all.
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
    """The stores for the plan's scratch caches, the shared one asked whether it works, and the keys."""
    if not plan.scratches:
        return None
    cache, trees = str(cache_folder(environ)), FolderTrees()
    local = FolderScratchStore(cache, FolderContentStore(cache))
    keys: Mapping[str, CacheKeys] = {}
    remote, unavailable = None, None
    try:
        keys = await evaluate_keys(plan, FolderKeyFiles(), os.getcwd(), run_dir)  # noqa: PTH109 - as the ports have it
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
    # httpx and cryptography cost a quarter of a second that a local pipeline need not pay.
    from senro.adapters.apiserver import read_configuration  # noqa: PLC0415 - as said above

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
    """A refusal for each step in a pod whose secrets do not fit into one Secret."""
    refusals = []
    for planned in plan.steps:
        names = set(planned.step.secrets.values())
        size = sum(len(values.get(name, b"")) for name in names)
        if isinstance(planned.step.on, Pod) and size > LARGEST:
            message = f"its secrets have {size} bytes together; a Secret holds {LARGEST} at most"
            refusals.append(Refusal(f"step {planned.step.id}", "secret-size", message))
    return refusals


def runs_in(run_dir: str) -> Runs:
    """The runs that a folder holds."""
    return FolderRuns(run_dir)


def content_store(environ: Mapping[str, str]) -> ContentStore:
    """The snapshots of this machine's cache folder."""
    return FolderContentStore(str(cache_folder(environ)))


def cache_in(environ: Mapping[str, str]) -> Cache:
    """This machine's cache folder as a whole."""
    return FolderCache(str(cache_folder(environ)))


def persistent_store(environ: Mapping[str, str]) -> PersistentStore:
    """The persistent workspaces of this machine's cache folder."""
    return FolderPersistentStore(str(cache_folder(environ)))


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where snapshots are kept: `SENRO_CACHE_DIR`, else `senro` in the user's cache folder."""
    chosen = environ.get("SENRO_CACHE_DIR")
    if chosen:
        return Path(chosen).absolute()
    base = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - HOME may be unset
    return Path(base).absolute() / "senro"


def system_clock() -> SystemClock:
    """The machine's clock, for a reporter that is made before the run's services are."""
    return SystemClock()
