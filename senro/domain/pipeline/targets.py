"""Where a workflow runs. Standard library only: pipeline files make these values, also inside a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from senro.domain.pipeline.durations import Duration

Security = Literal["baseline", "restricted"]
"""The Pod Security Standard that the whole pod meets."""


@dataclass(frozen=True, slots=True)
class Local:
    """The machine that runs the plan."""


def local() -> Local:
    """Run the workflow's steps as processes of the coordinator. Where a target is left out, this is it."""
    return Local()


@dataclass(frozen=True, slots=True)
class Pod:
    """Run each step as a pod of its own, in one container.

    `image` must be pinned by a full digest: `registry/name@sha256:<64 hex digits>`. `namespace` has no default.
    `user` and `group` are the numeric ids that the container runs as; left out, the image decides.
    `security="restricted"` makes the whole pod meet the restricted standard and needs a `user` that is not 0.
    `resources` is the container's `resources` as Kubernetes writes them (`{"requests": {"cpu": "500m"}}`);
    `transfer_resources` the same for the containers that carry workspaces, where a quota wants them.
    `helper` is another image, pinned as well, that carries workspaces where `image` has no sh, tar or mkfifo.
    `claims` maps the name of a workspace to a PersistentVolumeClaim of the namespace that is mounted in its place:
    nothing of it is carried, read back or kept, and one step at a time holds it (docs/claims.md).
    `env` is set in every step of the target. `labels` and `annotations` are added to the pod.
    `tolerations` are mappings as Kubernetes writes them. `image_pull_secrets` are names of Secrets in the namespace.

    `start_timeout` (seconds or a timedelta, five minutes) covers the creation until the first container runs, and again
    the release until the step runs. `max_lifetime` (the same, 24 h) bounds a step without a timeout. `grace` (whole
    seconds) is the pod's terminationGracePeriodSeconds. `max_pods` bounds how many of the target's pods exist at once.
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
"""Where a workflow runs."""
