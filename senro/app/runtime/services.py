"""The ports that a run works with, in one value; `senro.api.wiring` fills it with adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from senro.domain.caches.key import CacheKeys
from senro.domain.claims.lease import LEASE_SECONDS
from senro.domain.errors import StoreUnavailable
from senro.domain.transfer.compression import LinkRates
from senro.ports.clock import Clock, Randomness
from senro.ports.cluster import Cluster
from senro.ports.ledger import RunLedger
from senro.ports.persistent import WorkspaceLock
from senro.ports.pod_watch import PodWatch
from senro.ports.processes import Processes
from senro.ports.reporter import Reporter
from senro.ports.scratch import ScratchStore
from senro.ports.snapshots import ContentStore
from senro.ports.trees import Trees

WatchPod = Callable[[str, str, str], PodWatch]
"""From namespace, name and uid of a pod to the watch over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServices:
    """The cluster, how its pods are watched, and how fast the link to it was when it was last measured."""

    cluster: Cluster
    watch: WatchPod
    lease_seconds: int = LEASE_SECONDS
    """How long the lease of a claim lives unrenewed."""
    link: LinkRates = field(default_factory=LinkRates)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchServices:
    """Where scratch caches are kept, and what the keys of the plan's came to, by the cache's name.

    `unavailable` says why there is no `remote` although one is asked for.
    """

    local: ScratchStore
    keys: Mapping[str, CacheKeys]
    remote: ScratchStore | None = None
    unavailable: StoreUnavailable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything that a run needs of the world. `pods` and `scratch` are None for a plan that needs none.

    `persistent` holds the lock of each persistent workspace of the plan, by name.
    """

    ledger: RunLedger
    trees: Trees
    content: ContentStore
    processes: Processes
    clock: Clock
    randomness: Randomness
    reporter: Reporter
    pods: ClusterServices | None = None
    persistent: Mapping[str, WorkspaceLock] = field(default_factory=dict)
    scratch: ScratchServices | None = None
