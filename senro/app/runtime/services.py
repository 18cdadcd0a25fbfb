"""The ports that a run uses, in one object; `senro.api.wiring` fills it with adapters."""

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
"""Returns the watch of the pod with this namespace, name and uid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServices:
    """The cluster, how its pods are watched, and the measured rates of the link to it."""

    cluster: Cluster
    watch: WatchPod
    lease_seconds: int = LEASE_SECONDS
    """Seconds after which the lease of a claim expires if it is not renewed."""
    link: LinkRates = field(default_factory=LinkRates)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchServices:
    """The stores of scratch caches, and the keys of the plan's caches by name.

    `remote`: the shared store, None if there is none.
    `unavailable`: why a configured shared store is not used.
    """

    local: ScratchStore
    keys: Mapping[str, CacheKeys]
    remote: ScratchStore | None = None
    unavailable: StoreUnavailable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The ports of a run.

    `pods`, `scratch`: None for a plan that has no pod target, no scratch cache.
    `persistent`: the locks of the plan's persistent workspaces by name.
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
