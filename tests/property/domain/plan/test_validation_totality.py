from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.pipeline import retry
from senro.domain.pipeline.retry import Retry
from senro.domain.pipeline.step import Step
from senro.domain.pipeline.targets import Local, Pod
from senro.domain.pipeline.workflow import Workflow
from senro.domain.pipeline.workspace import Mount, Workspace
from senro.domain.plan.pipeline import Pipeline
from tests.lib.builders.plans import IMAGE, RUNNER, one_step, refusals_of

SRC = Workspace("src")


class Hostile:
    """An object whose every attribute raises; only its type is known."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise RuntimeError("asked")

    __eq__ = __ne__ = __lt__ = __len__ = __iter__ = __bool__ = __repr__ = __str__ = __getitem__ = __fspath__ = _raise
    __getattr__ = __contains__ = __int__ = __float__ = __index__ = __call__ = _raise

    def __hash__(self) -> int:
        return 1


class HostileSequence(Sequence[Any]):
    """A sequence by its type that raises when it is read."""

    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("asked")

    def __len__(self) -> int:
        raise RuntimeError("asked")


class HostileMapping(Mapping[str, Any]):
    """A mapping by its type that raises when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("asked")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("asked")

    def __len__(self) -> int:
        raise RuntimeError("asked")


class Path:
    """A path whose text cannot be read."""

    def __fspath__(self) -> bytes:
        return b"/src"


plain: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**400), 2**31, math.nan, math.inf]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["make", "/src", "rw", "run", IMAGE, "build", "\0", "\ud800", "SENRO_X", "500m", "restricted"]),
    st.binary(max_size=3),
    st.builds(Path),
    st.builds(Mock, spec=st.sampled_from([str, int, dict, Workflow, Step, Pod, Mount, Workspace, Retry])),
    st.timedeltas(),
    st.sampled_from([str, Pod, SRC, SRC.at("/src"), RUNNER, Local(), retry.on_any(attempts=2)]),
)
garbage: st.SearchStrategy[Any] = st.recursive(
    plain | st.builds(Hostile) | st.builds(HostileSequence) | st.builds(HostileMapping),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def fields_of(kind: Callable[..., Any], **good: Any) -> st.SearchStrategy[Any]:
    """Values of `kind` with valid and invalid fields."""
    return st.builds(kind, **{name: st.just(value) | garbage for name, value in good.items()})


targets = garbage | fields_of(
    Pod,
    image=IMAGE,
    namespace="ci",
    user=1,
    group=1,
    security="restricted",
    resources={"limits": {"cpu": 1}},
    transfer_resources={},
    service_account="a",
    node_selector={"a": "b"},
    tolerations=[{"operator": "Exists"}],
    image_pull_secrets=["a"],
    priority_class=None,
    runtime_class=None,
    env={"A": "b"},
    labels={"a": "b"},
    annotations={"a": "b"},
    start_timeout=1,
    max_lifetime=1,
    grace=1,
    max_pods=1,
)
workspaces = garbage | fields_of(Workspace, name="src", path=".", scope="run", exclude=["x"])
mounts = garbage | st.builds(Mount, workspace=workspaces, path=st.just("/src") | garbage, mode=st.just("rw") | garbage)
policies = garbage | fields_of(Retry, attempts=2, on="any", delay=1, factor=1, max_delay=1, unsafe=False)
any_steps = garbage | st.builds(
    Step,
    workflow=st.just("build") | garbage,
    name=st.sampled_from(["make", "test"]) | garbage,
    command=st.just(["make"]) | garbage,
    needs=st.lists(st.sampled_from(["make", "test", "other"]), max_size=2) | garbage,
    on=targets,
    mounts=st.lists(mounts, max_size=2) | garbage,
    workdir=st.just("/src") | garbage,
    env=st.dictionaries(st.sampled_from(["A", "B"]), garbage) | garbage,
    secrets=st.dictionaries(st.sampled_from(["A", "B"]), garbage) | garbage,
    retry=policies,
    timeout=st.just(1) | garbage,
    continue_on_error=st.just(True) | garbage,
)


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """A pipeline with any values in its fields."""
    pipeline = Pipeline(draw(st.just("p") | garbage))
    for name in draw(st.lists(st.sampled_from(["build", "other"]) | garbage, max_size=3)):
        workflow = pipeline.workflow("")
        workflow.name = name
        workflow.needs = draw(st.just(("other",)) | garbage)
        workflow.steps = draw(st.lists(any_steps, max_size=3) | garbage)
    if draw(st.integers(0, 9)) == 0:
        pipeline.workflows = draw(garbage)
    return pipeline


@given(pipelines())
def test_any_values_are_a_plan_or_a_plan_error(pipeline: Pipeline) -> None:
    """For any values `build` returns a plan or raises PlanError with refusals."""
    for refusal in refusals_of(pipeline):
        assert refusal.where
        assert refusal.rule
        assert refusal.message
        assert str(refusal).encode()


@given(st.sampled_from(["command", "needs", "on", "mounts", "workdir", "env", "secrets", "retry", "timeout"]), plain)
def test_adding_a_step_raises_nothing(field: str, value: Any) -> None:
    """Wrong values are refused by `build`, with everything else."""
    refusals_of(one_step(**{field: value}))


def test_values_that_raise_are_refused() -> None:
    """A sequence, mapping or path that raises is refused like any other wrong value."""
    hostile: Any = Hostile()
    sequence: Any = HostileSequence()
    mapping: Any = HostileMapping()
    bytes_path: Any = Path()
    cases = [
        (one_step(mounts=[Workspace("src", exclude=sequence).at("/src")]), "exclude of the workspace 'src'"),
        (one_step(on=Pod(IMAGE, namespace="ci", env=mapping)), "env of the target"),
        (one_step(mounts=[Workspace("src", path=hostile).at("/src")]), "the path of the workspace 'src'"),
        (one_step(mounts=[Workspace("src").at(bytes_path)]), "the path of entry 0 of mounts"),
    ]
    for pipeline, what in cases:
        (refusal,) = refusals_of(pipeline)
        assert refusal.rule == "type"
        assert refusal.message.startswith(what)
