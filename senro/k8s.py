"""Targets in a Kubernetes cluster: `on=k8s.Pod(image, namespace=...)`."""

from __future__ import annotations

from senro.domain.pipeline.targets import Pod

__all__ = ["Pod"]
