"""What every pod's worker shares, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.status import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.runtime import Runtime
    from senro.devcluster.kubelet.delays import Delays
    from senro.devcluster.kubelet.events import Recorder
    from senro.devcluster.kubelet.scheduler import Scheduler
    from senro.devcluster.storage import Storage


@dataclass(frozen=True, slots=True)
class Services:
    """The cluster's parts that a worker talks to. `images` are those pulled so far, `log_limit` is in bytes."""

    storage: Storage
    runtime: Runtime
    clock: Clock
    delays: Delays
    recorder: Recorder
    scheduler: Scheduler
    claims: Path
    log_limit: int
    images: set[str] = field(default_factory=set)

    def claim_folder(self, namespace: str) -> Callable[[str], Path | None]:
        """The folder that a PersistentVolumeClaim of that namespace is bound to, by its name; None where there is none.

        It lives as long as the claim: the next pod that mounts the claim finds what the last one left.
        """

        def folder(name: str) -> Path | None:
            claim = self.storage.find(CLAIMS, namespace, name)
            if claim is None:
                return None
            path = self.claims / str(claim["metadata"]["uid"])
            if not path.exists():
                path.mkdir(parents=True)
                path.chmod(0o777)
            return path

        return folder
