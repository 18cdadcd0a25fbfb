"""The containers of an attempt's pod, the paths that they mount, and the commands of the two that transfer files.

See docs/design/attempt.md#containers.
"""

from __future__ import annotations

STEP_CONTAINER = "step"
STAGE_CONTAINER = "senro-stage"
IO_CONTAINER = "senro-io"

CONTROL_MOUNT = "/senro/ctl"
VOLUMES_MOUNT = "/senro/ws"
SECRETS_MOUNT = "/run/senro/secrets"

STAGE_COMMAND = (
    "sh",
    "-c",
    f"trap 'exit 143' TERM; mkfifo {CONTROL_MOUNT}/go && {{ read _ < {CONTROL_MOUNT}/go & wait $!; }}",
)
"""The command of `senro-stage`: it ends with 0 once it has read a line from a fifo, and waits for that line for ever.

It runs `read` in the background because a signal interrupts `wait` alone: PID 1 without a trap would live until the
grace period of a deletion is over.
"""

IO_COMMAND = ("sh", "-c", "trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done")
"""The command of `senro-io`: it lives until the pod is deleted, and exits with 143 at once on SIGTERM
(docs/design/attempt.md#exit-code-of-senro-io)."""
