from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given

from senro.cli.plan import NONCE, RUN_ID, plan_text, pods_text
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.manifests.pod import pod_manifest
from senro.domain.pipeline.retry import on_any, on_failure, on_infra
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.workspace import Workspace
from senro.domain.plan.pipeline import Pipeline
from senro.domain.plan.plan import Plan, PlannedStep
from tests.lib.builders.plans import IMAGE, RUNNER, chain, steps

TEXT = f"""\
pipeline release: 3 steps

build.make  (local)
  make 'two words'
  mounts     src at /src (rw)
  mounts     tools at /tools (ro)
  workdir    /src
  env        A, CC
  retry      3 attempts, on failures of its command

build.lint  (local)
  lint
  needs      build.make
  mounts     src at /src (ro)
  retry      2 attempts, on any failure
  a failure does not stop the steps that need it

deploy.apply  (pod in ci, {IMAGE})
  helm upgrade '$HOME'
  needs      build.make, build.lint
  secret     Kubeconfig as a file, named by $KUBECONFIG
  timeout    90.5 s
  retry      4 attempts, on infrastructure failures

workspace src: from .
workspace tools: empty at first, a fresh copy for each step
"""


def release() -> Plan:
    pipeline = Pipeline("release")
    src, tools = Workspace("src", path="."), Workspace("tools", scope="step")
    build = pipeline.workflow("build")
    build.step(
        "make",
        ["make", "two words"],
        mounts=[src.at("/src"), tools.at("/tools", "ro")],
        workdir="/src",
        env={"CC": "made-up-value", "A": "1"},
        retry=on_failure(attempts=3),
    )
    build.step(
        "lint",
        ["lint"],
        needs=["make"],
        mounts=[src.at("/src", "ro")],
        continue_on_error=True,
        retry=on_any(attempts=2),
    )
    pipeline.workflow("deploy", needs=["build"], on=RUNNER).step(
        "apply",
        ["helm", "upgrade", "$HOME"],
        secrets={"KUBECONFIG": "Kubeconfig"},
        timeout=90.5,
        retry=on_infra(attempts=4),
    )
    return pipeline.build()


def test_the_text_of_a_plan() -> None:
    """It has every step with its options and every workspace, and no value of a variable."""
    text = plan_text(release())
    assert text == TEXT
    assert "made-up-value" not in text


def test_a_plan_without_workspaces_ends_with_its_last_step() -> None:
    """Without workspaces there is no section for them."""
    assert plan_text(chain("one")) == "pipeline chain: 1 step\n\nw.one  (local)\n  true\n"


def test_a_plan_without_pods() -> None:
    """The output is a comment, which is valid YAML without a document."""
    assert pods_text(chain("one")) == "# no step runs in a pod\n"
    assert list(yaml.safe_load_all(pods_text(chain("one")))) == []


def identity(step: Step) -> AttemptIdentity:
    return AttemptIdentity(run_id=RUN_ID, step_id=step.id, attempt=1, nonce=NONCE)


@pytest.mark.slow
@given(steps())
def test_the_pods_of_a_plan(step: Step) -> None:
    """The YAML has the exact manifest of the pod, after its Secret without the values."""
    text = pods_text(Plan("p", (PlannedStep(step, ()),), (), (), tuple(step.secrets.values())))
    documents: list[Any] = list(yaml.safe_load_all(text))
    assert documents[-1] == pod_manifest(step, identity(step))
    assert len(documents) == (2 if step.secrets else 1)
    if step.secrets:
        secret = documents[0]
        assert (secret["kind"], secret["metadata"]["name"]) == ("Secret", identity(step).name)
        assert secret["data"] == dict.fromkeys(sorted(set(step.secrets.values())), "(the value, in base64)")


def test_the_yaml_explains_its_placeholders() -> None:
    """A comment at the top explains them, before the documents in order."""
    text = pods_text(release())
    assert text.startswith("# The run's id, the attempt's nonce")
    assert [document["kind"] for document in yaml.safe_load_all(text)] == ["Secret", "Pod"]
