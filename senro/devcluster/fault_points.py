"""The moments in the life of a pod at which a fault can happen."""

from __future__ import annotations

FAULT_POINTS = {
    "scheduling": "it was created and is not bound to a node yet",
    "image": "the image of its first container is about to be pulled",
    "stage": "its senro-stage runs, and so waits for the workspace",
    "release": "its senro-stage has ended, and the step has not begun",
    "start": "the step's process was started, and no status says so yet",
    "middle": "the step runs, and its status says so",
    "term": "as middle, and SIGTERM ends its containers with 0, as a command that traps it",
    "after-exit": "the step has ended, and its status says so",
    "read-back": "an exec in its senro-io begins",
    "delete": "its deletion was requested and has not begun",
}
"""The name of each moment, and what is true of the pod then."""
