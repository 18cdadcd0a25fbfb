from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from senro.domain.pipeline.targets import local
from senro.domain.plan.build import build_plan
from senro.domain.plan.pipeline import Pipeline
from tests.lib.builders.plans import RUNNER, refusals_of


def test_reprs() -> None:
    """The repr of a pipeline and of a workflow has its name and how much it contains."""
    pipeline = Pipeline("release")
    workflow = pipeline.workflow("build")
    workflow.step("make", ["make"])
    assert repr(pipeline) == "<Pipeline 'release' of 1 workflows>"
    assert repr(workflow) == "<Workflow 'build' of 1 steps>"


def test_the_target_of_a_step() -> None:
    """A workflow is local by default, and `on` of a step overrides that of its workflow."""
    pipeline = Pipeline("p")
    assert pipeline.workflow("a").step("x", ["true"]).on == local()
    workflow = pipeline.workflow("b", on=RUNNER)
    assert workflow.step("x", ["true"]).on is RUNNER
    assert workflow.step("y", ["true"], on=local()).on == local()


def test_build() -> None:
    """`Pipeline.build` returns what `build_plan` returns."""
    pipeline = Pipeline("p")
    pipeline.workflow("w").step("x", ["true"])
    assert pipeline.build() == build_plan(pipeline.name, pipeline.workflows)


@pytest.mark.parametrize("value", [["a"], ("a",), iter(["a"]), {"a": 1}.keys(), {1: "a"}.values()])
def test_ordered_iterables_are_copied(value: Any) -> None:
    """An ordered iterable is copied when a step is added."""
    assert Pipeline("p").workflow("w").step("x", value, needs=["y"]).command == ("a",)


@pytest.mark.parametrize("value", ["make", b"make", {"make"}, frozenset({"make"}), 5, None, Mock(spec=dict)])
def test_other_values_are_kept_for_build(value: Any) -> None:
    """Nothing raises before `build`; a set is refused, since its order differs between processes."""
    pipeline = Pipeline("p")
    assert pipeline.workflow("w").step("x", value).command == value
    assert [refusal.where for refusal in refusals_of(pipeline)] == ["w.x"]
