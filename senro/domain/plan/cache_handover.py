"""Which steps pass scratch caches between pods and the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Local
from senro.domain.pipeline.workspace import ScratchMount
from senro.domain.plan.concurrency import predecessors
from senro.domain.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class CacheHandover:
    """Which steps of a plan pass the content of a scratch cache to which, by (step, cache).

    `providers` holds the predecessors that mount the cache and run on the other side: pods for a local step, local
    steps for a pod. Validation refuses two steps on different sides that no needs put in order, so every other step
    on the other side runs later.
    """

    providers: Mapping[tuple[str, str], tuple[str, ...]]

    def starts_from_local(self, step: str, cache: str) -> bool:
        """Whether the pod starts from what local steps left, and not from what was restored."""
        return bool(self.providers[step, cache])

    def is_passed_on(self, step: str, cache: str) -> bool:
        """Whether a later step on the other side gets what this one leaves."""
        return any(step in given and of == cache for (_, of), given in self.providers.items())


def cache_handover(plan: Plan) -> CacheHandover:
    """Returns which steps of `plan` pass a cache's content between pods and the coordinator."""
    earlier = predecessors(plan)
    mounting: dict[str, list[Step]] = {}
    for planned in plan.steps:
        for cache in cache_names(planned.step):
            mounting.setdefault(cache, []).append(planned.step)
    return CacheHandover(
        {
            (step.id, cache): tuple(
                other.id for other in steps if other.id in earlier[step.id] and _is_local(other) != _is_local(step)
            )
            for cache, steps in mounting.items()
            for step in steps
        }
    )


def cache_names(step: Step) -> tuple[str, ...]:
    """The names of the scratch caches that the step mounts."""
    return tuple(mount.name for mount in step.mounts if isinstance(mount, ScratchMount))


def _is_local(step: Step) -> bool:
    return isinstance(step.on, Local)
