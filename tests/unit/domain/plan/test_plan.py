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
    """The first pipeline of the README, with a second secret."""
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


def test_a_plan_of_a_pipeline() -> None:
    """It has steps with resolved needs, each workspace once, and the names of the secrets."""
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


def test_the_order_of_steps() -> None:
    """A step comes after those that it needs; else the order is that of the pipeline."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    workflow.step("last", ["true"], needs=["b", "w.a"])
    workflow.step("a", ["true"])
    workflow.step("b", ["true"])
    assert needs_of(pipeline) == {"w.a": (), "w.b": (), "w.last": ("w.b", "w.a")}
    assert [planned.step.name for planned in chain("x", "y", "z").steps] == ["x", "y", "z"]


def test_the_needs_of_a_workflow() -> None:
    """They come first and once, and a need may be a step of another workflow by its id."""
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


def test_a_workflow_without_steps_passes_on_its_needs() -> None:
    """The steps of the last workflow still wait for those of the first."""
    pipeline = Pipeline("p")
    pipeline.workflow("first").step("a", ["true"])
    pipeline.workflow("middle", needs=["first"])
    pipeline.workflow("last", needs=["middle"]).step("z", ["true"])
    assert needs_of(pipeline)["last.z"] == ("first.a",)


def test_a_need_is_resolved_in_its_own_workflow_first() -> None:
    """`a.b` is a step of the same workflow if it has that name, else an id."""
    pipeline = Pipeline("p")
    pipeline.workflow("a").step("b", ["true"])
    other = pipeline.workflow("w")
    other.step("a.b", ["true"])
    other.step("c", ["true"], needs=["a.b"])
    assert needs_of(pipeline)["w.c"] == ("w.a.b",)


def test_a_plan_does_not_change_with_its_pipeline() -> None:
    """Lists and mappings are copied, so later changes of them have no effect."""
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


def test_paths_and_durations_of_the_standard_library() -> None:
    """Paths of pathlib, timedeltas and whole numbers are accepted."""
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


def test_types_of_durations_and_sizes() -> None:
    """A type checker accepts a timedelta for durations and a quantity for a size; a plan has numbers.

    No argument here is `Any`, since the check of types is half of this test.
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


def test_equal_workspaces_are_one() -> None:
    """Two workspaces with equal fields are mounted as one."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    workflow.step("a", ["true"], mounts=[Workspace("src", exclude=["x"]).at("/src")])
    workflow.step("b", ["true"], mounts=[Workspace("src", exclude=("x",)).at("/src")], needs=["a"])
    assert pipeline.build().workspaces == (Workspace("src", exclude=("x",)),)


def test_a_local_step_may_have_a_relative_workdir() -> None:
    """On the coordinator a workdir may be relative to the working directory."""
    assert only_step(one_step(on=local(), workdir="sub")).workdir == "sub"


def test_the_document_is_the_plan() -> None:
    """The document has every field of the plan, and can be decoded."""
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


def test_scratch_caches_in_the_document() -> None:
    """A scratch cache has its key and restore keys, and its mount the path."""
    cache = ScratchCache("modules", key="gomod", restore_keys=("go",))
    document = json.loads(plan_document(one_step(mounts=[cache.at("/go")]).build()))
    assert document["scratches"] == [{"name": "modules", "key": "gomod", "restore_keys": ["go"]}]


def test_equal_plans_have_equal_documents() -> None:
    """The order of a mapping, and 600 or 600.0, do not matter."""
    one = one_step(env={"A": "1", "B": "2"}, timeout=600).build()
    other = one_step(env={"B": "2", "A": "1"}, timeout=600.0).build()
    assert one == other
    assert plan_document(one) == plan_document(other)
