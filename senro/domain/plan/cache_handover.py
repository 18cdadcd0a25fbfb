"""Who gets a scratch cache from whom, between the coordinator's own file system and pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Local
from senro.domain.pipeline.workspace import ScratchMount
from senro.domain.plan.concurrency import before
from senro.domain.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Handing:
    """The handing over of a plan's caches, by (step, cache).

    `before` holds the steps on the other side that come before it: a pod before a local step, a local step before a
    pod. The plan refuses two on different sides that no need puts in order, so whoever is not in it comes after.
    """

    before: Mapping[tuple[str, str], tuple[str, ...]]

    def starts_from_local(self, step: str, cache: str) -> bool:
        """Whether the pod starts from what local steps left, and not from what was restored."""
        return bool(self.before[step, cache])

    def hands_on(self, step: str, cache: str) -> bool:
        """Whether a later step on the other side gets what this one leaves."""
        return any(step in given and of == cache for (_, of), given in self.before.items())


def handing_of(plan: Plan) -> Handing:
    """The handing over in this plan."""
    earlier = before(plan)
    mounting: dict[str, list[Step]] = {}
    for planned in plan.steps:
        for cache in caches_of(planned.step):
            mounting.setdefault(cache, []).append(planned.step)
    return Handing(
        {
            (step.id, cache): tuple(
                other.id for other in steps if other.id in earlier[step.id] and _is_local(other) != _is_local(step)
            )
            for cache, steps in mounting.items()
            for step in steps
        }
    )


def caches_of(step: Step) -> tuple[str, ...]:
    """The names of the scratch caches that the step mounts."""
    return tuple(mount.name for mount in step.mounts if isinstance(mount, ScratchMount))


def _is_local(step: Step) -> bool:
    return isinstance(step.on, Local)
