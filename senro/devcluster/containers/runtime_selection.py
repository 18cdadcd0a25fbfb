"""Which runtime works here, found out by running it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from senro.devcluster.containers.bubblewrap import Bubblewrap
from senro.devcluster.containers.process_runtime import ProcessRuntime

if TYPE_CHECKING:
    from pathlib import Path

    from senro.devcluster.containers.memory import Cgroups
    from senro.devcluster.containers.runtime import Runtime
    from senro.devcluster.containers.watchdog import Watchdog

MODE_VARIABLE = "SENRO_DEVCLUSTER_MODE"
"""`mapped` forces containers without bubblewrap; `bubblewrap` refuses to go on without it."""


def choose_runtime(watchdog: Watchdog, hidden: Path, cgroups: Cgroups | None = None) -> Runtime:
    """Bubblewrap where it runs, else mapped processes. `hidden` is a host folder that no container may see."""
    wanted = os.environ.get(MODE_VARIABLE, "")
    if wanted not in {"", "mapped", "bubblewrap"}:
        raise ValueError(f"{MODE_VARIABLE} is {wanted!r}; it may be 'mapped' or 'bubblewrap'")
    if wanted == "mapped":
        return ProcessRuntime(watchdog, f"{MODE_VARIABLE} is mapped")
    runtime, why = Bubblewrap.probe(watchdog, hidden, cgroups)
    if runtime is not None:
        return runtime
    if wanted == "bubblewrap":
        raise RuntimeError(f"{MODE_VARIABLE} is bubblewrap, and it cannot run: {why}")
    return ProcessRuntime(watchdog, why)
