"""senro runs the steps of a pipeline as pods of a Kubernetes cluster.

The names below are loaded when they are first used: a pod imports the same pipeline file with nothing but the standard
library, and a program that only builds plans should not pay for a client that it does not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from senro import errors, k8s, retry, secret
    from senro.app.api import run, run_sync
    from senro.app.classify import classify
    from senro.app.result import Result, StepResult, WorkspaceResult
    from senro.domain.classification import Classification
    from senro.domain.errors import ConfigurationError, PlanError, SenroError
    from senro.domain.pipeline import Pipeline, Step, Workflow
    from senro.domain.plan import Plan
    from senro.domain.targets import local
    from senro.domain.workspace import Mount, ScratchCache, ScratchMount, Workspace
    from senro.ports.reporter import Reporter

__all__ = [
    "Classification",
    "ConfigurationError",
    "Mount",
    "Pipeline",
    "Plan",
    "PlanError",
    "Reporter",
    "Result",
    "ScratchCache",
    "ScratchMount",
    "SenroError",
    "Step",
    "StepResult",
    "Workflow",
    "Workspace",
    "WorkspaceResult",
    "__version__",
    "classify",
    "errors",
    "k8s",
    "local",
    "retry",
    "run",
    "run_sync",
    "secret",
]

_MODULES = frozenset({"errors", "k8s", "retry", "secret"})

_HOMES = {
    "Classification": "senro.domain.classification",
    "ConfigurationError": "senro.domain.errors",
    "Mount": "senro.domain.workspace",
    "Pipeline": "senro.domain.pipeline",
    "Plan": "senro.domain.plan",
    "PlanError": "senro.domain.errors",
    "Reporter": "senro.ports.reporter",
    "Result": "senro.app.result",
    "ScratchCache": "senro.domain.workspace",
    "ScratchMount": "senro.domain.workspace",
    "SenroError": "senro.domain.errors",
    "Step": "senro.domain.pipeline",
    "StepResult": "senro.app.result",
    "Workflow": "senro.domain.pipeline",
    "Workspace": "senro.domain.workspace",
    "WorkspaceResult": "senro.app.result",
    "classify": "senro.app.classify",
    "local": "senro.domain.targets",
    "run": "senro.app.api",
    "run_sync": "senro.app.api",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"senro.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'senro' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
