"""Retry policies: `retry=retry.on_infra(attempts=3)`."""

from __future__ import annotations

from senro.domain.pipeline.retry import Retry, on_any, on_failure, on_infra

__all__ = ["Retry", "on_any", "on_failure", "on_infra"]
