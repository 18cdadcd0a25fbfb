"""Pipelines for the tests of plans and pods: examples, and strategies that draw valid ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from senro.domain.errors import PlanError, Refusal
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Pod, Security
from senro.domain.pipeline.workspace import AnyMount, Mount, ScratchCache, Workspace
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan

DIGEST = "sha256:" + "9f2c" * 16
IMAGE = f"ghcr.io/acme/runner@{DIGEST}"
HELPER = f"registry.example/busybox@{DIGEST}"
RUNNER = Pod(IMAGE, namespace="ci")


def one_step(**fields: Any) -> Pipeline:
    """Returns a pipeline of the step `build.make` in a pod. `fields` are those of the step."""
    pipeline = Pipeline("release")
    fields.setdefault("command", ["make"])
    fields.setdefault("on", RUNNER)
    pipeline.workflow("build").step("make", **fields)
    return pipeline


def pod(**fields: Any) -> Pipeline:
    """Returns a pipeline of the step `build.make` in a pod. `fields` are those of the pod."""
    return one_step(on=Pod(**{"image": IMAGE, "namespace": "ci", **fields}))


def only_step(pipeline: Pipeline) -> Step:
    """Returns the only step of the plan."""
    (step,) = pipeline.build().steps
    return step.step


def refusals_of(pipeline: Pipeline) -> tuple[Refusal, ...]:
    """Returns the refusals of the pipeline; none if it builds."""
    try:
        pipeline.build()
    except PlanError as error:
        return error.refusals
    return ()


words = st.text("abz09", min_size=1, max_size=8)
texts = st.text("ab$()= \"'\\\nü€😀", max_size=12)
dns_labels = st.lists(words, min_size=1, max_size=3).map("-".join)
variables = st.builds(str.__add__, st.sampled_from(["A", "b", "_", "-", ".x", "PATH"]), words)
environments = st.dictionaries(variables, texts, max_size=3)
label_values = st.just("") | st.builds("{}{}{}".format, words, st.sampled_from(["_", ".", "-", ""]), words)
labels = st.dictionaries(
    st.builds(str.__add__, st.sampled_from(["", "team.example/", "A_b.c-"]), words), label_values, max_size=2
)
amounts = st.sampled_from(["1", "500m", "1.5", 2, 0.5, "1e3", "2Gi"])
resources = st.fixed_dictionaries({}, optional={"limits": st.fixed_dictionaries({"cpu": amounts, "memory": amounts})})
seconds = st.floats(0.001, 1e6) | st.integers(1, 2**31 - 1)
ids = st.none() | st.integers(0, 2**31 - 1)
tolerations: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.sampled_from(
        [
            {"operator": "Exists"},
            {"key": "ci", "value": "yes", "effect": "NoSchedule"},
            {"key": "ci", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        ]
    ),
    max_size=2,
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Draws a valid target."""
    security: Security = draw(st.sampled_from(("baseline", "restricted")))
    return Pod(
        IMAGE,
        namespace=draw(dns_labels),
        user=draw(ids if security == "baseline" else st.integers(1, 2**31 - 1)),
        group=draw(ids),
        security=security,
        helper=draw(st.none() | st.just(HELPER)),
        resources=draw(resources),
        transfer_resources=draw(resources),
        service_account=draw(st.none() | dns_labels),
        node_selector=draw(labels),
        tolerations=draw(tolerations),
        image_pull_secrets=draw(st.lists(dns_labels, max_size=2)),
        priority_class=draw(st.none() | dns_labels),
        runtime_class=draw(st.none() | dns_labels),
        env=draw(environments),
        labels=draw(labels),
        annotations={key: draw(texts) for key in draw(labels)},
        start_timeout=draw(seconds),
        max_lifetime=draw(seconds),
        grace=draw(st.integers(1, 2**31 - 1)),
        max_pods=draw(st.none() | st.integers(1, 100)),
    )


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Draws a valid step in a pod, with any fields."""
    target = draw(pods())
    names = draw(st.lists(dns_labels, max_size=3, unique=True))
    claims = draw(st.sets(st.sampled_from(names))) if names else set()
    target = replace(
        target, claims={name: f"claim-{name}"[:60].rstrip("-") + f"-{names.index(name)}" for name in claims}
    )
    mounts: list[AnyMount] = [
        Mount(
            Workspace(name, links="refuse" if name in claims else draw(st.sampled_from(["refuse", "keep"]))),
            f"/{draw(st.sampled_from(['work', 'srv/a b']))}/{place}",
            draw(st.sampled_from(["rw", "ro"])),
        )
        for place, name in enumerate(names)
    ]
    if draw(st.booleans()):
        mounts.insert(draw(st.integers(0, len(mounts))), ScratchCache("modules", key="gomod").at("/cache"))
    env = draw(environments)
    keys = st.builds(str.__add__, st.sampled_from(["", ".", "A_b-"]), words)
    secrets = draw(
        st.dictionaries(variables.filter(lambda name: name not in env and name not in target.env), keys, max_size=3)
    )
    return only_step(
        one_step(
            command=[draw(texts.filter(bool)), *draw(st.lists(texts, max_size=3))],
            on=target,
            mounts=mounts,
            workdir=draw(st.none() | st.just("/work")),
            env=env,
            secrets=secrets,
            retry=draw(st.none() | st.just(Retry(attempts=2, on="infra"))),
            timeout=draw(st.none() | seconds),
            no_snapshot=draw(st.booleans()),
            pure=not claims and draw(st.booleans()),
        )
    )


def chain(*names: str) -> Plan:
    """Returns a plan of local steps, each of which needs the previous one."""
    pipeline = Pipeline("chain")
    workflow = pipeline.workflow("w")
    for place, name in enumerate(names):
        workflow.step(name, ["true"], needs=names[place - 1 : place] if place else ())
    return pipeline.build()
