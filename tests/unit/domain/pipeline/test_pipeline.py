from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from senro.domain.pipeline.targets import local
from senro.domain.plan.build import build_plan
from senro.domain.plan.pipeline import Pipeline
from tests.lib.builders.plans import RUNNER, refusals_of


def test_a_pipeline_shows_what_it_has() -> None:
    """The repr of a pipeline and of a workflow name them and count what they hold."""
    pipeline = Pipeline("release")
    workflow = pipeline.workflow("build")
    workflow.step("make", ["make"])
    assert repr(pipeline) == "<Pipeline 'release' of 1 workflows>"
    assert repr(workflow) == "<Workflow 'build' of 1 steps>"


def test_a_step_runs_where_its_workflow_does_unless_it_says_otherwise() -> None:
    """Without a target a workflow is local; `on` of a step wins over its workflow's."""
    pipeline = Pipeline("p")
    assert pipeline.workflow("a").step("x", ["true"]).on == local()
    workflow = pipeline.workflow("b", on=RUNNER)
    assert workflow.step("x", ["true"]).on is RUNNER
    assert workflow.step("y", ["true"], on=local()).on == local()


def test_build_is_the_plan() -> None:
    """`Pipeline.build` makes what `build_plan` makes."""
    pipeline = Pipeline("p")
    pipeline.workflow("w").step("x", ["true"])
    assert pipeline.build() == build_plan(pipeline.name, pipeline.workflows)


@pytest.mark.parametrize("value", [["a"], ("a",), iter(["a"]), {"a": 1}.keys(), {1: "a"}.values()])
def test_any_ordered_iterable_is_a_list(value: Any) -> None:
    """What has an order is copied when a step is written down."""
    assert Pipeline("p").workflow("w").step("x", value, needs=["y"]).command == ("a",)


@pytest.mark.parametrize("value", ["make", b"make", {"make"}, frozenset({"make"}), 5, None, Mock(spec=dict)])
def test_what_has_no_order_or_is_no_list_is_kept_to_be_refused(value: Any) -> None:
    """Nothing raises before `build`; a set is refused, since its order is another one in every process."""
    pipeline = Pipeline("p")
    assert pipeline.workflow("w").step("x", value).command == value
    assert [refusal.where for refusal in refusals_of(pipeline)] == ["w.x"]
