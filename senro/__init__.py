"""senro runs the steps of a pipeline as pods of a Kubernetes cluster.

The names below are imported when they are first used. So a pipeline file can be imported with nothing but the standard
library, and a program that only builds plans does not import the client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from senro._version import __version__

if TYPE_CHECKING:
    from senro import errors, k8s, retry, secret
    from senro.api.classify import classify
    from senro.api.result import Result, StepResult, WorkspaceResult
    from senro.api.run import run, run_sync
    from senro.domain.errors import ConfigurationError, PlanError, SenroError
    from senro.domain.pipeline.step import Step
    from senro.domain.pipeline.targets import local
    from senro.domain.pipeline.workflow import Workflow
    from senro.domain.pipeline.workspace import Mount, ScratchCache, ScratchMount, Workspace
    from senro.domain.plan.pipeline import Pipeline
    from senro.domain.plan.plan import Plan
    from senro.domain.verdict.explain.classification import Classification
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
    "Classification": "senro.domain.verdict.explain.classification",
    "ConfigurationError": "senro.domain.errors",
    "Mount": "senro.domain.pipeline.workspace",
    "Pipeline": "senro.domain.plan.pipeline",
    "Plan": "senro.domain.plan.plan",
    "PlanError": "senro.domain.errors",
    "Reporter": "senro.ports.reporter",
    "Result": "senro.api.result",
    "ScratchCache": "senro.domain.pipeline.workspace",
    "ScratchMount": "senro.domain.pipeline.workspace",
    "SenroError": "senro.domain.errors",
    "Step": "senro.domain.pipeline.step",
    "StepResult": "senro.api.result",
    "Workflow": "senro.domain.pipeline.workflow",
    "Workspace": "senro.domain.pipeline.workspace",
    "WorkspaceResult": "senro.api.result",
    "classify": "senro.api.classify",
    "local": "senro.domain.pipeline.targets",
    "run": "senro.api.run",
    "run_sync": "senro.api.run",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"senro.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'senro' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
