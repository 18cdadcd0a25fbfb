from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from senro.domain.manifests.pod import own_deadline
from senro.domain.pipeline import retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Local, Pod, local
from senro.domain.pipeline.workspace import Mount, ScratchCache, Workspace
from senro.domain.plan.document import FORMAT, PlanDocument, plan_document
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import PlannedStep
from tests.lib.builders.plans import IMAGE, RUNNER, chain, one_step, only_step


def release() -> Pipeline:
    """The pipeline that the README shows first, with a second secret."""
    pipeline = Pipeline("release")
    src = Workspace("src", path=".", exclude=["dist/"])
    pipeline.workflow("build").step("make", ["make", "dist"], mounts=[src.at("/src")], workdir="/src")
    deploy = pipeline.workflow("deploy", needs=["build"], on=RUNNER)
    deploy.step(
        "apply",
        ["helm", "upgrade", "--install", "web", "./chart"],
        mounts=[src.at("/src", "ro")],
        workdir="/src",
        secrets={"KUBECONFIG": "Kubeconfig", "TOKEN": "Api.Token"},
        retry=retry.on_infra(attempts=3),
        timeout=600,
    )
    return pipeline


def needs_of(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    return {planned.step.id: planned.needs for planned in pipeline.build().steps}


def test_a_plan_holds_all_that_a_run_needs() -> None:
    """Steps with resolved needs, each workspace once, the names of secrets."""
    plan = release().build()
    src = Workspace("src", path=".", exclude=("dist/",))
    assert plan.name == "release"
    assert plan.workspaces == (src,)
    assert plan.secrets == ("Api.Token", "Kubeconfig")
    make, apply = plan.steps
    assert make == PlannedStep(
        Step(
            workflow="build",
            name="make",
            command=("make", "dist"),
            on=Local(),
            mounts=(Mount(src, "/src", "rw"),),
            workdir="/src",
        ),
        (),
    )
    assert apply.needs == ("build.make",)
    assert apply.step.on == RUNNER
    assert apply.step.timeout == 600


def test_steps_stand_after_what_they_need_and_else_as_written() -> None:
    """A step that is written first and needs the last one comes last; the others keep their places."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    workflow.step("last", ["true"], needs=["b", "w.a"])
    workflow.step("a", ["true"])
    workflow.step("b", ["true"])
    assert needs_of(pipeline) == {"w.a": (), "w.b": (), "w.last": ("w.b", "w.a")}
    assert [planned.step.name for planned in chain("x", "y", "z").steps] == ["x", "y", "z"]


def test_a_step_needs_every_step_of_the_workflows_that_its_own_needs() -> None:
    """The needs of the workflow come first, none twice, and a need may name a step of another workflow by its id."""
    pipeline = Pipeline("p")
    third = pipeline.workflow("third", needs=["second", "first"])
    third.step("x", ["true"], needs=["first.b"])
    third.step("y", ["true"], needs=["x", "x"])
    pipeline.workflow("second").step("a", ["true"], needs=["first.a"])
    first = pipeline.workflow("first")
    first.step("a", ["true"])
    first.step("b", ["true"])
    assert needs_of(pipeline) == {
        "first.a": (),
        "second.a": ("first.a",),
        "first.b": (),
        "third.x": ("second.a", "first.a", "first.b"),
        "third.y": ("second.a", "first.a", "first.b", "third.x"),
    }


def test_a_workflow_without_steps_hands_on_its_needs() -> None:
    """Leaving out the steps of a workflow in the middle does not let the last one start before the first."""
    pipeline = Pipeline("p")
    pipeline.workflow("first").step("a", ["true"])
    pipeline.workflow("middle", needs=["first"])
    pipeline.workflow("last", needs=["middle"]).step("z", ["true"])
    assert needs_of(pipeline)["last.z"] == ("first.a",)


def test_a_name_is_looked_for_in_its_own_workflow_first() -> None:
    """`a.b` is a step of the own workflow where there is one of that name, else an id."""
    pipeline = Pipeline("p")
    pipeline.workflow("a").step("b", ["true"])
    other = pipeline.workflow("w")
    other.step("a.b", ["true"])
    other.step("c", ["true"], needs=["a.b"])
    assert needs_of(pipeline)["w.c"] == ("w.a.b",)


def test_a_plan_does_not_change_with_what_it_was_made_of() -> None:
    """Lists and mappings are copied; what their maker does to them later is not seen."""
    command = ["make"]
    env = {"A": "1"}
    labels = {"team": "web"}
    resources = {"limits": {"cpu": "1"}}
    pipeline = one_step(command=command, env=env, on=Pod(IMAGE, namespace="ci", labels=labels, resources=resources))
    before = pipeline.build()
    written = plan_document(before)
    command.append("x")
    labels["other"] = "x"
    resources["limits"]["cpu"] = "2"
    pipeline.workflows[0].step("more", ["true"])
    assert plan_document(before) == written
    env["B"] = "2"
    assert "B" not in pipeline.workflows[0].steps[0].env


def test_paths_and_durations_may_be_the_standard_librarys() -> None:
    """Paths of pathlib, a timedelta, and whole numbers mean what they spell."""
    source: Any = Path("src")
    workdir: Any = PurePosixPath("/src")
    step = only_step(
        one_step(
            mounts=[Workspace("src", path=source).at(workdir)],
            workdir=workdir,
            timeout=timedelta(minutes=10),
            retry=retry.on_infra(attempts=2, delay=0, max_delay=5),
        )
    )
    assert step.mounts == (Mount(Workspace("src", path="src"), "/src"),)
    assert step.workdir == "/src"
    assert step.timeout == 600.0
    assert step.retry == retry.Retry(attempts=2, on="infra", delay=0.0, max_delay=5.0)


def test_durations_and_sizes_as_the_documents_write_them() -> None:
    """A type checker takes a timedelta for every duration and a quantity for a size, and a plan holds them as numbers.

    No argument here hides behind `Any`: the check of types is the half of this test.
    """
    hour = timedelta(hours=1)
    deps = Workspace("deps", scope="persistent", max_age=hour, max_size="10Gi")
    pod = Pod(IMAGE, namespace="ci", start_timeout=hour, max_lifetime=hour)
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w", on=pod)
    made = [
        workflow.step(policy.on, ["true"], mounts=[deps.at("/deps", "ro")], timeout=hour, retry=policy)
        for policy in (
            retry.on_infra(attempts=2, delay=hour, max_delay=hour),
            retry.on_failure(attempts=2, delay=hour, max_delay=hour),
            retry.on_any(attempts=2, delay=hour, max_delay=hour),
        )
    ]
    assert [step.timeout for step in made] == [3600.0] * 3
    plan = pipeline.build()
    for one in plan.steps:
        assert one.step.on == Pod(IMAGE, namespace="ci", start_timeout=3600.0, max_lifetime=3600.0)
        assert one.step.timeout == 3600.0
        assert one.step.retry is not None
        assert (one.step.retry.delay, one.step.retry.max_delay) == (3600.0, 3600.0)
        assert own_deadline(one.step, 0) == own_deadline(replace(one.step, on=pod), 0)
    assert plan.workspaces == (Workspace("deps", scope="persistent", max_age=3600.0, max_size=10 << 30),)
    assert plan.workspaces[0].bounds == (3600.0, 10 << 30)
    assert deps.bounds is None  # before it is read
    document = msgspec.json.decode(plan_document(plan), type=PlanDocument)
    assert (document.workspaces[0].max_age, document.workspaces[0].max_size) == (3600.0, 10 << 30)


def test_two_workspaces_of_one_value_are_one() -> None:
    """A workspace is its value: made twice alike, it is mounted as one."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    workflow.step("a", ["true"], mounts=[Workspace("src", exclude=["x"]).at("/src")])
    workflow.step("b", ["true"], mounts=[Workspace("src", exclude=("x",)).at("/src")], needs=["a"])
    assert pipeline.build().workspaces == (Workspace("src", exclude=("x",)),)


def test_a_local_step_may_have_a_relative_workdir() -> None:
    """On the coordinator a workdir is relative to the working folder."""
    assert only_step(one_step(on=local(), workdir="sub")).workdir == "sub"


def test_the_document_is_the_plan() -> None:
    """Every field of the plan stands in it, as a person would look for it, and a program reads it back."""
    data = plan_document(release().build())
    document = msgspec.json.decode(data, type=PlanDocument)
    assert data.endswith(b"}\n")
    assert document.format == FORMAT
    assert json.loads(data)["steps"] == [
        {
            "id": "build.make",
            "command": ["make", "dist"],
            "mounts": [{"workspace": "src", "path": "/src", "mode": "rw"}],
            "workdir": "/src",
        },
        {
            "id": "deploy.apply",
            "command": ["helm", "upgrade", "--install", "web", "./chart"],
            "needs": ["build.make"],
            "pod": {
                "image": IMAGE,
                "namespace": "ci",
                "security": "baseline",
                "start_timeout": 300.0,
                "max_lifetime": 86400.0,
                "grace": 30,
            },
            "mounts": [{"workspace": "src", "path": "/src", "mode": "ro"}],
            "workdir": "/src",
            "secrets": {"KUBECONFIG": "Kubeconfig", "TOKEN": "Api.Token"},
            "retry": {
                "attempts": 3,
                "on": "infra",
                "delay": 1.0,
                "factor": 2.0,
                "max_delay": 60.0,
                "unsafe": False,
            },
            "timeout": 600.0,
        },
    ]
    assert json.loads(data)["workspaces"] == [{"name": "src", "scope": "run", "path": ".", "exclude": ["dist/"]}]


def test_scratch_caches_stand_in_the_document() -> None:
    """A scratch cache is written with its key and restore keys, and its mount with the path alone."""
    cache = ScratchCache("modules", key="gomod", restore_keys=("go",))
    document = json.loads(plan_document(one_step(mounts=[cache.at("/go")]).build()))
    assert document["scratches"] == [{"name": "modules", "key": "gomod", "restore_keys": ["go"]}]


def test_equal_plans_have_one_document() -> None:
    """Neither the order of a mapping nor 600 for 600.0 shows in the document."""
    one = one_step(env={"A": "1", "B": "2"}, timeout=600).build()
    other = one_step(env={"B": "2", "A": "1"}, timeout=600.0).build()
    assert one == other
    assert plan_document(one) == plan_document(other)
