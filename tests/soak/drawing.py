"""Draws a pipeline and its faults from a seed. The same seed gives the same run except for its timing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import senro
from senro import k8s, retry
from senro.devcluster import Faults
from senro.devcluster.random_faults import draw_faults

FAILURE = 7
"""The exit code of a command that fails by itself."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A pipeline whose steps each add a line to one file.

    `failing`: the step that exits with FAILURE, or "".
    """

    seed: int
    steps: tuple[str, ...]
    secret: str
    failing: str
    size: int
    faults: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def expected(self) -> list[str]:
        """The steps whose lines must be in the workspace at the end, in order."""
        return list(self.steps[: self.steps.index(self.failing)] if self.failing else self.steps)

    def arm(self, faults: Faults) -> None:
        """Arms the faults."""
        for name, arguments in self.faults:
            getattr(faults, name)(**arguments)

    def pipeline(self, on: k8s.Pod) -> senro.Pipeline:
        """Returns the pipeline. Every step may be tried once more than there are faults, without delays."""
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
    """Returns the draw of a seed."""
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
