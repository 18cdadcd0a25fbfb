"""The states of steps and runs."""

from __future__ import annotations

from typing import Literal

StepState = Literal[
    "pending", "running", "succeeded", "recovered", "failed", "timed_out", "cancelled", "skipped_upstream_failed"
]
"""The state of a step. All but the first two are final; `recovered` is a success that took more than one attempt."""

RunState = Literal["succeeded", "succeeded_with_recovery", "partial", "failed", "cancelled"]
"""The final state of a run. `partial`: only steps with `continue_on_error` failed."""
