"""Every rule of `senro.domain.plan.validation` is violated once.

More than 500 lines: there are many rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from senro.domain.pipeline import retry
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Pod, local
from senro.domain.pipeline.workflow import Workflow
from senro.domain.pipeline.workspace import Mount, ScratchCache, ScratchMount, Workspace
from senro.domain.plan.pipeline import Pipeline
from tests.lib.builders.plans import DIGEST, IMAGE, RUNNER, one_step, pod, refusals_of

SRC = Workspace("src")


def rules(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(refusal.where, refusal.rule) for refusal in refusals_of(pipeline)]


STEPS: list[tuple[dict[str, Any], str]] = [
    # the command
    ({"command": "make dist"}, "command-text"),
    ({"command": []}, "command-empty"),
    ({"command": ["", "x"]}, "command-program"),
    ({"command": ["make", "a\0b"]}, "nul"),
    ({"command": ["make", "\ud800"]}, "text"),
    ({"command": ["make", 5]}, "type"),
    ({"command": b"make"}, "type"),
    ({"command": {"make"}}, "type"),
    ({"command": None}, "type"),
    # the folder
    ({"workdir": "src"}, "workdir-relative"),
    ({"workdir": ""}, "workdir-empty"),
    ({"workdir": "/a\0"}, "nul"),
    ({"workdir": 5}, "type"),
    # mounts
    ({"mounts": [SRC.at("src")]}, "mount-relative"),
    ({"mounts": [SRC.at("")]}, "mount-relative"),
    ({"mounts": [SRC.at("/a/../b")]}, "mount-dots"),
    ({"mounts": [SRC.at("/..")]}, "mount-dots"),
    ({"mounts": [SRC.at("/a:b")]}, "mount-colon"),
    *(
        ({"mounts": [SRC.at(path)]}, "mount-reserved")
        for path in ("/", "//", "/.", "/proc", "/proc/1", "/dev", "/dev/shm")
    ),
    *(
        ({"mounts": [SRC.at(path)]}, "mount-reserved")
        for path in ("/sys", "/sys/fs", "/run", "/etc", "/etc/", "//proc")
    ),
    *(
        ({"mounts": [SRC.at(path)]}, "mount-reserved")
        for path in ("/run/senro", "/run/senro/secrets/x", "/senro", "/senro/ws/0")
    ),
    *(({"mounts": [SRC.at(path)]}, "mount-normal") for path in ("/a/", "//a", "/a//b", "/a/./b", "/./a", "/a/.")),
    ({"mounts": [SRC.at("/" + "a" * 256)]}, "mount-long"),
    ({"mounts": [SRC.at("/a" * 2048)]}, "mount-long"),
    ({"mounts": [SRC.at("/a\0")]}, "nul"),
    ({"mounts": [SRC.at(cast("str", 5))]}, "type"),
    ({"mounts": [SRC.at("/a"), Workspace("b").at("/a")]}, "mount-twice"),
    ({"mounts": [SRC.at("/a"), Workspace("b").at("/a/b")]}, "mount-nested"),
    ({"mounts": [SRC.at("/a/b/c"), Workspace("b").at("/a")]}, "mount-nested"),
    ({"mounts": [SRC.at("/a"), SRC.at("/b", "ro")]}, "workspace-twice"),
    ({"mounts": [SRC.at("/a", cast("Any", "wr"))]}, "mount-mode"),
    ({"mounts": [SRC.at("/a", cast("Any", None))]}, "mount-mode"),
    ({"mounts": [SRC]}, "type"),
    ({"mounts": SRC.at("/a")}, "type"),
    ({"mounts": [Mount(cast("Workspace", "src"), "/a")]}, "type"),
    # workspaces
    *(
        ({"mounts": [Workspace(name).at("/a")]}, "workspace-name")
        for name in ("", "A", "a_b", "-a", "a.b", "a" * 64, "a\n")
    ),
    ({"mounts": [Workspace(cast("str", None)).at("/a")]}, "type"),
    ({"mounts": [Workspace("a", scope=cast("Any", "job")).at("/a")]}, "workspace-scope"),
    ({"mounts": [Workspace("a", path="").at("/a")]}, "workspace-path"),
    ({"mounts": [Workspace("a", path=cast("str", 5)).at("/a")]}, "type"),
    ({"mounts": [Workspace("a", exclude="*.pyc").at("/a")]}, "type"),
    ({"mounts": [Workspace("a", exclude=["!x"]).at("/a")]}, "exclude"),
    ({"mounts": [Workspace("a", links=cast("Any", "follow")).at("/a")]}, "workspace-links"),
    ({"mounts": [Workspace("a", links="keep", preserve_symlinks=False).at("/a")]}, "workspace-links"),
    ({"mounts": [Workspace("a", preserve_symlinks=cast("bool", 1)).at("/a")]}, "type"),
    ({"mounts": [Workspace("a", max_age=60).at("/a")]}, "workspace-bounds"),
    ({"mounts": [Workspace("a", scope="step", max_size=60).at("/a")]}, "workspace-bounds"),
    ({"mounts": [Workspace("a", scope="persistent", max_size=60).at("/a")]}, "workspace-bounds"),
    ({"mounts": [Workspace("a", scope="persistent", max_age=60).at("/a")]}, "workspace-bounds"),
    *(
        ({"mounts": [Workspace("a", scope="persistent", max_age=age, max_size=1).at("/a")]}, "workspace-bounds")
        for age in (0, -1, cast("float", "1d"), math.inf)
    ),
    *(
        ({"mounts": [Workspace("a", scope="persistent", max_age=1, max_size=size).at("/a")]}, "workspace-bounds")
        for size in (0, -1, cast("int", "ten"), cast("int", "500m"), cast("int", 1.5), True, 2**63)
    ),
    # scratch caches
    *(({"mounts": [ScratchCache(name, key="x").at("/a")]}, "scratch-name") for name in ("", "A", "a_b", "a" * 64)),
    ({"mounts": [ScratchCache(cast("str", 5), key="x").at("/a")]}, "type"),
    ({"mounts": [ScratchCache("a", key=cast("str", 5)).at("/a")]}, "type"),
    ({"mounts": [ScratchCache("a", key="x", restore_keys="x").at("/a")]}, "type"),
    ({"mounts": [ScratchCache("a", key="{{ env('X') }}").at("/a")]}, "scratch-key"),
    ({"mounts": [ScratchCache("a", key="x", restore_keys=["x", ""]).at("/a")]}, "scratch-key"),
    ({"mounts": [ScratchCache("a", key="x").at("a")]}, "mount-relative"),
    ({"mounts": [ScratchCache("a", key="x").at("/a"), ScratchCache("a", key="x").at("/b")]}, "workspace-twice"),
    ({"mounts": [ScratchMount(cast("ScratchCache", "a"), "/a")]}, "type"),
    ({"no_snapshot": "yes"}, "type"),
    ({"pure": "yes"}, "type"),
    # the environment
    *(({"env": {name: "x"}}, "env-name") for name in ("", "1A", "A=B", "A B", "..", ".", "..A", "ä", "A\n")),
    *(({"env": {name: "x"}}, "env-reserved") for name in ("SENRO_", "SENRO_RUN", "SENRO_K8S_TOKEN", "SENRO_X")),
    ({"env": {"A": 5}}, "env-value"),
    ({"env": {"A": None}}, "env-value"),
    ({"env": {"A": b"x"}}, "env-value"),
    ({"env": {"A": "a\0"}}, "nul"),
    ({"env": {"A\0": "a"}}, "nul"),
    ({"env": {5: "a"}}, "type"),
    ({"env": ["A=B"]}, "type"),
    # what a kernel takes
    ({"command": ["x", "a" * (128 * 1024)]}, "string-size"),
    ({"env": {"A": "ä" * (64 * 1024)}}, "string-size"),
    ({"command": ["x", *(["a" * 100_000] * 21)], "on": local()}, "total-size"),
    ({"command": ["x"] * 210_000, "on": local()}, "total-size"),
    ({"command": ["x", *(["a" * 100_000] * 13)]}, "object-size"),
    ({"command": ["x", *(["$" * 100_000] * 7)]}, "object-size"),
    # secrets
    ({"secrets": {"A=B": "x"}}, "env-name"),
    ({"secrets": {"SENRO_X": "x"}}, "env-reserved"),
    *(
        ({"secrets": {"A": name}}, "secret-name")
        for name in ("", "a/b", "a b", ".", "..", "..a", "a" * 254, "ä", "a\n")
    ),
    ({"secrets": {"A": 5}}, "type"),
    ({"secrets": ["A"]}, "type"),
    ({"secrets": {"A": "x"}, "env": {"A": "y"}}, "secret-variable"),
    ({"secrets": {"A": "x"}, "on": Pod(IMAGE, namespace="ci", env={"A": "y"})}, "secret-variable"),
    # clocks
    *(({"timeout": value}, "timeout") for value in (0, -1, math.nan, math.inf, -math.inf, 2**31, 10**400, True, "600")),
    ({"timeout": timedelta(seconds=-1)}, "timeout"),
    *(({"retry": retry.on_infra(attempts=value)}, "retry-attempts") for value in (1, 0, -1, -(10**5000), 1001, True)),
    ({"retry": retry.on_infra(attempts=cast("int", 2.5))}, "retry-attempts"),
    ({"retry": retry.on_infra(attempts=cast("int", "3"))}, "retry-attempts"),
    ({"retry": Retry(attempts=2, on=cast("Any", "always"))}, "retry-on"),
    *(({"retry": retry.on_any(attempts=2, delay=value)}, "retry-delay") for value in (-1, math.nan, math.inf, 61)),
    *(({"retry": retry.on_any(attempts=2, max_delay=value)}, "retry-delay") for value in (-1, math.nan, math.inf, 0.5)),
    *(
        ({"retry": retry.on_failure(attempts=2, factor=value)}, "retry-factor")
        for value in (0, 0.5, -1, math.nan, 1001)
    ),
    ({"retry": retry.on_any(attempts=2, unsafe=cast("bool", 1))}, "type"),
    ({"retry": 3}, "type"),
    ({"continue_on_error": "yes"}, "type"),
    # needs
    ({"needs": ["mike"]}, "unknown-need"),
    ({"needs": ["build"]}, "unknown-need"),
    ({"needs": ["make"]}, "cycle"),
    ({"needs": "test"}, "type"),
    ({"needs": [5]}, "type"),
    # the target
    ({"on": "pod"}, "type"),
    ({"on": Pod}, "type"),
]

TARGETS: list[tuple[dict[str, Any], str]] = [
    *(({"image": image}, "image") for image in ("busybox", "busybox:latest", f"{IMAGE[:-1]}", f"A/B@{DIGEST}", "")),
    ({"image": None}, "type"),
    ({"image": f"{IMAGE}\0"}, "nul"),
    ({"helper": "busybox"}, "image"),
    ({"helper": 5}, "type"),
    ({"claims": ["a"]}, "type"),
    ({"claims": {"A": "b"}}, "claims"),
    ({"claims": {"a": "b", "c": "b"}}, "claims"),
    ({"claims": {"a": "B"}}, "object-name"),
    ({"claims": {"a": 5}}, "type"),
    ({"namespace": None}, "namespace"),
    *(({"namespace": name}, "namespace") for name in ("", "CI", "a.b", "-a", "a" * 64, "ci\n")),
    ({"namespace": 5}, "type"),
    ({"security": "privileged"}, "security"),
    ({"security": "restricted"}, "restricted-user"),
    ({"security": "restricted", "user": 0}, "restricted-user"),
    ({"security": "restricted", "user": -1}, "user"),
    *(({"user": value}, "user") for value in (-1, 2**31, True, 1.0, "root")),
    *(({"group": value}, "group") for value in (-1, 2**31, False, "0")),
    *(({"grace": value}, "grace") for value in (-1, 0, 0.5, 2**31, None)),
    *(({"max_pods": value}, "max-pods") for value in (0, -1, 1.5)),
    *(({"start_timeout": value}, "start-timeout") for value in (0, -1, math.nan, math.inf, None)),
    *(({"max_lifetime": value}, "max-lifetime") for value in (0, -1, math.nan, math.inf, None)),
    ({"service_account": "A"}, "object-name"),
    ({"priority_class": ""}, "object-name"),
    ({"runtime_class": "a_b"}, "object-name"),
    ({"image_pull_secrets": ["a/b"]}, "object-name"),
    ({"image_pull_secrets": [None]}, "type"),
    ({"image_pull_secrets": "registry"}, "type"),
    ({"service_account": 5}, "type"),
    ({"env": {"1": "x"}}, "env-name"),
    ({"env": {"SENRO_X": "x"}}, "env-reserved"),
    ({"labels": {"-a": "x"}}, "label-key"),
    ({"labels": {"a": "x y"}}, "label-value"),
    ({"labels": {"a": "x" * 64}}, "label-value"),
    ({"labels": {"a": 5}}, "type"),
    ({"labels": {"senro.dev/run": "x"}}, "own-key"),
    ({"labels": {"sub.senro.dev/run": "x"}}, "own-key"),
    ({"annotations": {"a b": "x"}}, "annotation-key"),
    ({"annotations": {"Senro.dev/step-id": "x"}}, "own-key"),
    ({"annotations": {"a": "x" * 262_144}}, "annotations-size"),
    ({"node_selector": {"a/b/c": "x"}}, "label-key"),
    ({"node_selector": {"a": "-"}}, "label-value"),
    ({"node_selector": ["a"]}, "type"),
    *(
        ({"tolerations": [value]}, "toleration")
        for value in (
            {},
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "value": "v"},
            {"key": "a b"},
            {"key": "a", "value": "a b"},
            {"key": "a", "effect": "Never"},
            {"operator": "Exists", "tolerationSeconds": 5},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "5"},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**63},
            {"operator": "Exists", "seconds": 5},
        )
    ),
    ({"tolerations": [{"key": 5}]}, "type"),
    ({"tolerations": ["a"]}, "type"),
    ({"tolerations": {"key": "a"}}, "type"),
    ({"resources": {"cpu": "1"}}, "resources"),
    ({"resources": {"claims": []}}, "resources"),
    ({"resources": {"limits": "1"}}, "type"),
    ({"resources": 5}, "type"),
    *(
        ({"resources": {"limits": {"cpu": value}}}, "quantity")
        for value in ("1K", "", "-1", -1, math.nan, True, None, 2**70)
    ),
    *(
        ({"resources": {"limits": {name: 1}}}, "resource-name")
        for name in ("CPU", "gpu", "kubernetes.io/x", "a.kubernetes.io/x")
    ),
    ({"resources": {"limits": {"requests.a.example/x": 1}}}, "resource-name"),
    ({"resources": {"limits": {"hugepages-": 1}}}, "resource-name"),
    ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1999m"}}}, "resource-limit"),
    ({"transfer_resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}}}, "resource-limit"),
    ({"resources": {"limits": {"a.example/gpu": "0.5"}}}, "quantity"),
    ({"resources": {"requests": {"a.example/gpu": 1}}}, "resource-limit"),
    ({"resources": {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}}, "resource-limit"),
]


def named(cases: Sequence[tuple[dict[str, Any], str]]) -> list[Any]:
    return [pytest.param(fields, rule, id=f"{rule}-{'-'.join(fields)}") for fields, rule in cases]


@pytest.mark.parametrize(("fields", "rule"), named(STEPS))
def test_an_invalid_step(fields: dict[str, Any], rule: str) -> None:
    """One mistake is one refusal, which has the step, the rule and the remedy."""
    (refusal,) = refusals_of(one_step(**fields))
    assert (refusal.where, refusal.rule) == ("build.make", rule)
    assert len(refusal.message) < 400
    assert "; " in refusal.message or ", so " in refusal.message


@pytest.mark.parametrize(("fields", "rule"), named(TARGETS))
def test_an_invalid_target(fields: dict[str, Any], rule: str) -> None:
    """One mistake in a target is one refusal, of the step that runs there."""
    (refusal,) = refusals_of(pod(**fields))
    assert (refusal.where, refusal.rule) == ("build.make", rule)
    assert "; " in refusal.message or ", so " in refusal.message


FINE: list[dict[str, Any]] = [
    {"mounts": [SRC.at("/src"), Workspace("b").at("/srcs"), Workspace("c").at("/run/x"), Workspace("d").at("/etc/x")]},
    {
        "mounts": [
            SRC.at("/process"),
            Workspace("b").at("/run/senro2"),
            Workspace("c").at("/senro-x"),
            Workspace("d").at("/a b/..c"),
        ]
    },
    {"mounts": [SRC.at("/" + "a" * 255), Workspace("a" * 63).at("/a" * 2047)]},
    {"command": ["x", "a" * (128 * 1024 - 1)], "env": {"A": "a" * (128 * 1024 - 3)}},
    {"command": ["x", "", " ", "ü", "\n"], "workdir": "/a/../b:c"},
    {"env": {"a": "", "_": "x", "-.9": "x", ".a": "x", "SENRO": "x", "senro_x": "x", "TZ": "x\n"}},
    {"secrets": {"A": "x", "B": "x", "C": "9_-.a", "D": ".a"}},
    {"timeout": 0.001, "retry": retry.on_infra(attempts=2, delay=0, max_delay=0, factor=1)},
    {"timeout": 2**31 - 1, "retry": retry.on_any(attempts=1000, delay=60, factor=1000)},
    {"on": Pod(IMAGE, namespace="a" * 63, user=0, group=0, grace=1, max_pods=1, security="baseline")},
    {"on": Pod(IMAGE, namespace="ci", user=2**31 - 1, group=0, security="restricted")},
    {
        "on": Pod(
            IMAGE, namespace="ci", labels={"notsenro.dev/x": "", "a": "A_b.c"}, annotations={"Team.example/A": "\n"}
        )
    },
    {
        "on": Pod(
            IMAGE, namespace="ci", resources={"requests": {"cpu": "0.5"}, "limits": {"cpu": "500m", "memory": 2**31}}
        )
    },
    {
        "on": Pod(
            IMAGE,
            namespace="ci",
            resources={"requests": {"a.example/gpu": 1}, "limits": {"a.example/gpu": "1", "hugepages-2Mi": "4Mi"}},
            tolerations=[{"key": "a", "effect": "NoExecute", "tolerationSeconds": -1}, {"operator": "Exists"}],
        )
    },
]


@pytest.mark.parametrize("fields", FINE)
def test_limits_are_inclusive(fields: dict[str, Any]) -> None:
    """The last allowed value is accepted."""
    assert refusals_of(one_step(**fields)) == ()


def two(**fields: Any) -> tuple[Pipeline, Workflow]:
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    workflow.step("a", ["true"], **fields)
    return pipeline, workflow


def duplicate_steps() -> Pipeline:
    pipeline, workflow = two()
    workflow.step("a", ["false"])
    return pipeline


def duplicate_workflows() -> Pipeline:
    pipeline, _ = two()
    pipeline.workflow("w").step("b", ["true"])
    return pipeline


def an_id_that_two_pairs_of_names_spell() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.workflow("a.b").step("c", ["true"])
    pipeline.workflow("a").step("b.c", ["true"])
    return pipeline


def unknown_workflow() -> Pipeline:
    pipeline, _ = two()
    pipeline.workflow("x", needs=["v"]).step("b", ["true"])
    return pipeline


def steps_in_a_circle() -> Pipeline:
    pipeline, workflow = two(needs=["c"])
    workflow.step("b", ["true"], needs=["a"])
    workflow.step("c", ["true"], needs=["b"])
    return pipeline


def workflows_in_a_circle() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.workflow("a", needs=["b"]).step("x", ["true"])
    pipeline.workflow("b", needs=["c"])
    pipeline.workflow("c", needs=["a"]).step("y", ["true"])
    return pipeline


def step_and_workflow_in_a_circle() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.workflow("a").step("x", ["true"], needs=["b.y"])
    pipeline.workflow("b", needs=["a"]).step("y", ["true"])
    return pipeline


def two_workspaces_of_one_name(other: Workspace) -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src", "ro")])
    workflow.step("b", ["true"], mounts=[other.at("/src", "ro")])
    return pipeline


def two_writers() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src")])
    workflow.step("b", ["true"], mounts=[SRC.at("/src")])
    return pipeline


def reader_and_writer() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src", "ro")])
    workflow.step("b", ["true"], mounts=[SRC.at("/src")])
    return pipeline


GOMOD = ScratchCache("gomod", key="x")
CLAIMING = Pod(IMAGE, namespace="ci", claims={"src": "c"})


def two_caches_of_one_name() -> Pipeline:
    pipeline, workflow = two(mounts=[GOMOD.at("/go")])
    workflow.step("b", ["true"], mounts=[ScratchCache("gomod", key="y").at("/go")])
    return pipeline


def cache_on_both_sides(needs: Sequence[str] = ()) -> Pipeline:
    pipeline, workflow = two(mounts=[GOMOD.at("/go")])
    workflow.step("b", ["true"], on=RUNNER, mounts=[GOMOD.at("/go")], needs=needs)
    return pipeline


def cache_in_two_pods() -> Pipeline:
    pipeline, workflow = two(mounts=[GOMOD.at("/go")], on=RUNNER)
    workflow.step("b", ["true"], on=RUNNER, mounts=[GOMOD.at("/go")])
    return pipeline


def claim_here_carried_there() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src")], on=CLAIMING)
    workflow.step("b", ["true"], mounts=[SRC.at("/src")], needs=["a"])
    return pipeline


def claim_in_two_steps() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src")], on=CLAIMING)
    workflow.step("b", ["true"], on=CLAIMING, mounts=[SRC.at("/src")])
    return pipeline


def claim_in_two_namespaces() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src")], on=CLAIMING)
    workflow.step("b", ["true"], on=replace(CLAIMING, namespace="cd"), mounts=[SRC.at("/src")])
    return pipeline


def claim_of_two_names() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src")], on=CLAIMING)
    mounts = [Workspace("other").at("/src")]
    workflow.step("b", ["true"], on=replace(CLAIMING, claims={"other": "c"}), mounts=mounts)
    return pipeline


def pure_with_a_claim() -> Pipeline:
    return two(mounts=[SRC.at("/src", "ro")], on=CLAIMING, pure=True)[0]


def claim_with_content() -> Pipeline:
    pipeline, _ = two(mounts=[Workspace("src", path=".").at("/src")], on=CLAIMING)
    return pipeline


def writer_that_keeps_nothing() -> Pipeline:
    pipeline, workflow = two(mounts=[SRC.at("/src", "ro")])
    workflow.step("b", ["true"], mounts=[SRC.at("/src")], no_snapshot=True)
    return pipeline


def no_steps() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.workflow("w")
    return pipeline


def foreign_step() -> Pipeline:
    pipeline, workflow = two()
    workflow.steps.append(Step(workflow="other", name="b", command=("true",)))
    return pipeline


def foreign_workflow() -> Pipeline:
    pipeline, _ = two()
    pipeline.workflows.append(cast("Workflow", "w"))
    return pipeline


def unnamed(name: Any) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.workflow("w").step(name, ["true"])
    return pipeline


ALL_REFUSALS: list[tuple[Pipeline, str, str, str]] = [
    (Pipeline("p"), "p", "empty", "has no steps"),
    (no_steps(), "p", "empty", "has no steps"),
    (duplicate_steps(), "w.a", "duplicate-step", "2 steps have this id"),
    (an_id_that_two_pairs_of_names_spell(), "a.b.c", "duplicate-step", "2 steps have this id"),
    (duplicate_workflows(), "w", "duplicate-workflow", "2 workflows have this name"),
    (unknown_workflow(), "x", "unknown-need", "needs 'v', and there is no such workflow; add it"),
    (one_step(needs=["build"]), "build.make", "unknown-need", "that is a workflow"),
    (one_step(needs=["maek"]), "build.make", "unknown-need", "did you mean 'make'?"),
    (steps_in_a_circle(), "w.a", "cycle", "w.a needs w.c needs w.b needs w.a; remove one"),
    (workflows_in_a_circle(), "a", "cycle", "a needs b needs c needs a; remove one"),
    (step_and_workflow_in_a_circle(), "a.x", "cycle", "a.x needs b.y needs a.x; remove one"),
    (
        two_workspaces_of_one_name(Workspace("src", path=".")),
        "w.b",
        "workspace-differs",
        "another path here than in w.a",
    ),
    (two_workspaces_of_one_name(Workspace("src", scope="step")), "w.b", "workspace-differs", "another scope"),
    (two_workspaces_of_one_name(Workspace("src", exclude=["x"])), "w.b", "workspace-differs", "another exclude"),
    (two_caches_of_one_name(), "w.b", "workspace-differs", "the scratch cache gomod has another key here than in w.a"),
    (cache_on_both_sides(), "w.b", "scratch-shared", "this step (in a pod) and w.a (local) share the scratch cache"),
    (claim_here_carried_there(), "w.b", "claim-differs", "is transferred here and the claim c of ci in w.a"),
    (claim_in_two_namespaces(), "w.b", "claim-differs", "is the claim c of cd here and the claim c of ci in w.a"),
    (claim_of_two_names(), "w.b", "claim-names", "the claim c replaces the workspace other here and src in w.a"),
    (
        pure_with_a_claim(),
        "w.a",
        "claim-pure",
        "is pure, but mounts the workspace src, which the claim c replaces",
    ),
    (claim_with_content(), "w.a", "claim-content", "the claim c replaces the workspace src, whose content"),
    (two_writers(), "w.b", "lost-update", "this step and w.a mount the workspace src"),
    (reader_and_writer(), "w.b", "lost-update", "add needs"),
    (foreign_workflow(), "p", "type", "workflow 2 is 'w'; add workflows by pipeline.workflow(...)"),
    (foreign_step(), "w", "workflow", "step 2 is of workflow 'other'"),
    *((unnamed(name), "w.step 1", "name", "the step's name") for name in ("", " a", "a\n", "a" * 254, "\x1b[2J")),
    (unnamed(None), "w.step 1", "type", "the step's name is None"),
    (unnamed("a\0"), "w.step 1", "nul", "the step's name"),
    (Pipeline(cast("str", 5)), "pipeline", "type", "the pipeline's name is 5"),
]


SHARED: list[Pipeline] = [
    cache_on_both_sides(needs=["a"]),
    cache_in_two_pods(),
    claim_in_two_steps(),
    writer_that_keeps_nothing(),
]


@pytest.mark.parametrize("pipeline", SHARED)
def test_valid_shared_mounts(pipeline: Pipeline) -> None:
    """A cache that is passed on or that pods share, a claim, a workspace whose second writer keeps nothing."""
    assert refusals_of(pipeline) == ()


@pytest.mark.parametrize(("pipeline", "where", "rule", "says"), ALL_REFUSALS)
def test_an_invalid_pipeline(pipeline: Pipeline, where: str, rule: str, says: str) -> None:
    """What concerns several steps is one refusal, of the step to change, which names the others."""
    (refusal,) = refusals_of(pipeline)
    assert (refusal.where, refusal.rule) == (where, rule)
    assert says in refusal.message


def test_everything_is_refused_at_once() -> None:
    """A pipeline with a mistake of every kind has all refusals, in the order of the pipeline."""
    pipeline = Pipeline("")
    first = pipeline.workflow("a", needs=["b", "zz"], on=Pod("x:latest"))
    first.step("x", "make", needs=["y"])
    first.step(
        "y",
        [],
        mounts=[SRC.at("/a/"), Workspace("s").at("/s", cast("Any", "rx"))],
        env=cast("Any", {"A": 3, "SENRO_X": "1"}),
    )
    first.step("z", ["x\0"], needs=["z"], timeout=0, retry=retry.on_any(attempts=1))
    second = pipeline.workflow("b", needs=["a"])
    second.step("v", ["true"], mounts=[SRC.at("/src")])
    third = pipeline.workflow("c")
    third.step("r", ["true"], mounts=[Workspace("t").at("/src")])
    third.step("s", ["true"], mounts=[Workspace("t").at("/src")])
    assert rules(pipeline) == [
        ("pipeline", "name"),
        ("a.x", "image"),
        ("a.x", "namespace"),
        ("a.x", "command-text"),
        ("a.y", "command-empty"),
        ("a.y", "mount-normal"),
        ("a.y", "mount-mode"),
        ("a.y", "env-value"),
        ("a.y", "env-reserved"),
        ("a.z", "nul"),
        ("a.z", "retry-attempts"),
        ("a.z", "timeout"),
        ("a", "unknown-need"),
        ("a", "cycle"),
        ("a.z", "cycle"),
        ("c.s", "lost-update"),
    ]


def test_shared_values_are_refused_once() -> None:
    """A mistake in a target names all its steps, one in a workspace the first step that mounts it."""
    pipeline = Pipeline("p")
    bad = Workspace("BAD")
    workflow = pipeline.workflow("w", on=Pod("x", namespace="ci"))
    for name in "abcde":
        workflow.step(name, ["true"], mounts=[bad.at("/src", "ro")])
    image, workspace = refusals_of(pipeline)
    assert (image.where, image.rule) == ("w.a", "image")
    assert image.message.endswith("(also: w.b, w.c, w.d and 1 more)")
    assert (workspace.where, workspace.rule) == ("w.a", "workspace-name")


@pytest.mark.parametrize(
    ("mode", "scope", "needs"), [("ro", "run", []), ("rw", "step", []), ("rw", "run", ["c"]), ("rw", "run", ["w.a"])]
)
def test_mounts_that_lose_no_update(mode: Any, scope: Any, needs: list[str]) -> None:
    """Reading only, a content per step, or an order, also an indirect one, make sharing safe."""
    src = Workspace("src", scope=scope)
    pipeline, workflow = two(mounts=[src.at("/src", mode)])
    workflow.step("c", ["true"], needs=["a"])
    workflow.step("b", ["true"], mounts=[src.at("/src", mode)], needs=needs)
    assert refusals_of(pipeline) == ()


def test_a_lost_update_names_the_other_steps() -> None:
    """Each later step is refused once with all earlier ones; readers do not conflict."""
    pipeline = Pipeline("p")
    workflow = pipeline.workflow("w")
    for name in "abcd":
        workflow.step(name, ["true"], mounts=[SRC.at("/src", "ro")])
    workflow.step("z", ["true"], mounts=[SRC.at("/src")])
    (refusal,) = refusals_of(pipeline)
    assert refusal.where == "w.z"
    assert "this step and w.a, w.b, w.c and 1 more mount the workspace src" in refusal.message


def test_an_unknown_order_is_no_lost_update() -> None:
    """A misspelled need is refused alone, since it may be the order."""
    pipeline, workflow = two(mounts=[SRC.at("/src")])
    workflow.step("b", ["true"], mounts=[SRC.at("/src")], needs=["aa"])
    workflow.step("c", ["true"], mounts=[SRC.at("/src")], needs=["b"])
    pipeline.workflow("empty", needs=["ww"])
    pipeline.workflow("x", needs=["empty"]).step("d", ["true"], mounts=[SRC.at("/src")])
    assert rules(pipeline) == [("empty", "unknown-need"), ("w.b", "unknown-need")]


def test_an_error_never_quotes_a_value_of_an_unknown_type() -> None:
    """The repr of an object may raise or show a secret, so the message has its type."""

    class Secret:
        def __repr__(self) -> str:
            return "hunter2"

    (refusal,) = refusals_of(one_step(env={"A": Secret()}))
    assert refusal.message == "env['A'] is a value of type Secret; write text, in quotes"


def test_long_values_are_cut_in_messages() -> None:
    """A message stays short whatever the value is."""
    (refusal,) = refusals_of(pod(namespace="a" * 10_000))
    assert len(refusal.message) < 300
    (refusal,) = refusals_of(one_step(timeout=10**5000))
    assert "a number of 16610 bits" in refusal.message
