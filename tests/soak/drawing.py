"""Draws a pipeline and what goes wrong in it from a seed: the same seed, the same run but for its timing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import senro
from senro import k8s, retry
from senro.devcluster import Faults
from senro.devcluster.random_faults import draw_faults

FAILURE = 7
"""What a command that fails by itself exits with."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A pipeline of steps that each add a line to one file; `failing` is the step that exits with FAILURE, or ""."""

    seed: int
    steps: tuple[str, ...]
    secret: str
    failing: str
    size: int
    faults: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def expected(self) -> list[str]:
        """The steps whose work has to be in the workspace at the end, in order."""
        return list(self.steps[: self.steps.index(self.failing)] if self.failing else self.steps)

    def arm(self, faults: Faults) -> None:
        """Arm what was drawn."""
        for name, arguments in self.faults:
            getattr(faults, name)(**arguments)

    def pipeline(self, on: k8s.Pod) -> senro.Pipeline:
        """The pipeline; every step may be tried once more than there are faults, and nothing is waited for."""
        pipeline = senro.Pipeline("soak")
        source = senro.Workspace("source")
        again = retry.on_infra(attempts=len(self.faults) * 3 + 2, delay=0)
        workflow = pipeline.workflow("w", on=on)
        before: list[str] = []
        for step in self.steps:
            name = step.partition(".")[2]
            last = f"exit {FAILURE}" if step == self.failing else f"echo {step} >> /src/done"
            secrets = {"TOKEN": "Token"} if step == self.secret else {}
            check = 'test "$(cat "$TOKEN")" = made-up; ' if secrets else ""
            fill = f"head -c {self.size} /dev/urandom > /src/data; "
            workflow.step(
                name,
                ["sh", "-ec", f"{check}{fill}sleep 0.1; {last}"],
                mounts=[source.at("/src")],
                needs=before,
                retry=again,
                secrets=secrets,
            )
            before = [name]
        return pipeline


def draw(seed: int) -> Draw:
    """The draw of a seed."""
    random_source = random.Random(seed)
    steps = tuple(f"w.s{number}" for number in range(random_source.randint(1, 3)))
    return Draw(
        seed,
        steps,
        random_source.choice([*steps, "", ""]),
        random_source.choice([*steps, "", "", "", ""]),
        random_source.choice([0, 1_000, 300_000]),
        draw_faults(f"{seed} faults", steps),
    )
