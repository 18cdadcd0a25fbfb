"""The pipeline of `senro demo`: local steps and pods that share a workspace, and a pod that is evicted."""

from __future__ import annotations

from senro.domain.pipeline.retry import on_infra
from senro.domain.pipeline.targets import Pod
from senro.domain.pipeline.workspace import Workspace
from senro.domain.plan.pipeline import Pipeline

EVICTED_STEP = "ship.publish"
"""The step whose first pod the embedded cluster evicts."""

_WRITE = """
echo "writing a small project on this machine"
mkdir -p src
for n in 1 2 3; do echo "part $n" > "src/part$n.txt"; done
head -c 4000000 /dev/urandom > src/data.bin
ls src
"""

_BUILD = """
echo "building in the pod $(hostname)"
mkdir -p dist
for n in 1 2 3; do echo "compiling src/part$n.txt"; cat "src/part$n.txt" >> dist/app; sleep 0.3; done
chmod +x dist/app
"""

_TEST = """
echo "testing in the pod $(hostname), where the workspace is read-only"
test "$(wc -l < dist/app)" -eq 3 && test -x dist/app
if touch dist/app 2>/dev/null; then echo "(read-only mounts are not enforced here: the pods are plain processes)"; fi
echo "3 tests passed"
"""

_PUBLISH = """
echo "publishing from the pod $(hostname), attempt $SENRO_ATTEMPT"
sleep 1
echo "version 1.0" > dist/version
"""

_CHECK = """
echo "back on this machine:"
ls -l dist
"""


def demo_pipeline(image: str, namespace: str) -> Pipeline:
    """Returns the pipeline, with pods of `image` in `namespace`."""
    pod = Pod(image, namespace=namespace, grace=2)
    project = Workspace("project")
    at = project.at("/project")
    read_only = project.at("/project", "ro")
    pipeline = Pipeline("demo")
    pipeline.workflow("here").step("write", ["sh", "-ec", _WRITE], mounts=[at], workdir="/project")
    build = pipeline.workflow("build", needs=["here"], on=pod)
    build.step("make", ["sh", "-ec", _BUILD], mounts=[at], workdir="/project", timeout=60)
    build.step("test", ["sh", "-ec", _TEST], needs=["make"], mounts=[read_only], workdir="/project", timeout=60)
    ship = pipeline.workflow("ship", needs=["build"], on=pod)
    ship.step(
        "publish",
        ["sh", "-ec", _PUBLISH],
        mounts=[at],
        workdir="/project",
        retry=on_infra(attempts=3, delay=0.5),
        timeout=60,
    )
    pipeline.workflow("done", needs=["ship"]).step(
        "check", ["sh", "-ec", _CHECK], mounts=[read_only], workdir="/project"
    )
    return pipeline
