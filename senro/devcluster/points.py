"""The moments of a pod's life at which a fault may strike."""

from __future__ import annotations

POINTS = {
    "scheduling": "it was created, and no node has it yet",
    "image": "the image of its first container is about to be looked for",
    "stage": "its senro-stage runs, and so waits for the workspace",
    "release": "its senro-stage has ended, and the step has not begun",
    "start": "the step's process was started, and no status says so yet",
    "middle": "the step runs, and its status says so",
    "term": "as middle, and SIGTERM ends its containers with 0, as a command that traps it",
    "after-exit": "the step has ended, and its status says so",
    "read-back": "an exec in its senro-io begins",
    "delete": "its deletion was asked for, and has not begun",
}
"""Moments of a pod's life at which a fault may strike, and what each is."""
