"""What every pod's worker shares, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from senro.devcluster.images import Images

if TYPE_CHECKING:
    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.runtime import Runtime
    from senro.devcluster.kubelet.claims import Claims
    from senro.devcluster.kubelet.delays import Delays
    from senro.devcluster.kubelet.events import Recorder
    from senro.devcluster.kubelet.scheduler import Scheduler
    from senro.devcluster.storage import Storage


@dataclass(frozen=True, slots=True)
class Services:
    """The cluster's parts that a worker talks to. `log_limit` is in bytes."""

    storage: Storage
    runtime: Runtime
    clock: Clock
    delays: Delays
    recorder: Recorder
    scheduler: Scheduler
    claims: Claims
    log_limit: int
    images: Images = field(default_factory=Images)
