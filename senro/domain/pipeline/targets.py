"""Where a workflow runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from senro.domain.pipeline.durations import Duration

Security = Literal["baseline", "restricted"]
"""The Pod Security Standard that the whole pod meets."""


@dataclass(frozen=True, slots=True)
class Local:
    """The machine of the coordinator."""


def local() -> Local:
    """Runs the steps as processes of the coordinator. This is the default target."""
    return Local()


@dataclass(frozen=True, slots=True)
class Pod:
    """Runs each step as a pod of its own.

    `image`: the image with its digest: `registry/name@sha256:<64 hex digits>`.
    `namespace`: the namespace, which has no default.
    `user`, `group`: the numeric ids that the container runs as; by default those of the image.
    `security`: "restricted" makes the whole pod meet the restricted standard, and needs a `user` other than 0.
    `resources`: the container's `resources` as in Kubernetes: `{"requests": {"cpu": "500m"}}`.
    `transfer_resources`: the same for the containers that transfer workspaces, if a quota requires them.
    `helper`: another image, with its digest, that transfers the workspaces if `image` has no sh, tar or mkfifo.
    `claims`: PersistentVolumeClaims by the names of the workspaces that they replace. senro transfers nothing of a
    claim, and one step at a time mounts it (docs/claims.md).
    `service_account`, `node_selector`, `priority_class`, `runtime_class`: fields of the pod's spec.
    `tolerations`: mappings as in Kubernetes.
    `image_pull_secrets`: names of Secrets of the namespace.
    `env`: environment variables of every step.
    `labels`, `annotations`: added to the pod.
    `start_timeout`: seconds or a timedelta, for the time until the first container runs, and again from the end of the
    upload until the step runs.
    `max_lifetime`: the same, for a step without a timeout.
    `grace`: the pod's terminationGracePeriodSeconds.
    `max_pods`: how many pods of the target exist at once at most.
    """

    image: str
    namespace: str | None = None
    user: int | None = field(default=None, kw_only=True)
    group: int | None = field(default=None, kw_only=True)
    security: Security = field(default="baseline", kw_only=True)
    resources: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    transfer_resources: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    helper: str | None = field(default=None, kw_only=True)
    claims: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    service_account: str | None = field(default=None, kw_only=True)
    node_selector: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    tolerations: Sequence[Mapping[str, Any]] = field(default=(), kw_only=True)
    image_pull_secrets: Sequence[str] = field(default=(), kw_only=True)
    priority_class: str | None = field(default=None, kw_only=True)
    runtime_class: str | None = field(default=None, kw_only=True)
    env: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    labels: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    annotations: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    start_timeout: Duration = field(default=300.0, kw_only=True)
    max_lifetime: Duration = field(default=86_400.0, kw_only=True)
    grace: int = field(default=30, kw_only=True)
    max_pods: int | None = field(default=None, kw_only=True)


Target = Local | Pod
