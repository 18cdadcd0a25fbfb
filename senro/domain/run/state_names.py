"""The words for what steps and runs come to."""

from __future__ import annotations

from typing import Literal

StepState = Literal[
    "pending", "running", "succeeded", "recovered", "failed", "timed_out", "cancelled", "skipped_upstream_failed"
]
"""The state of a step. All but the first two are final; `recovered` is a success that took more than one attempt."""

RunState = Literal["succeeded", "succeeded_with_recovery", "partial", "failed", "cancelled"]
"""What a run came to. `partial`: only steps with `continue_on_error` failed."""
