"""`senro demo`: runs an example pipeline on the embedded cluster."""

from __future__ import annotations

import os

import click

from senro.cli.demo_pipeline import EVICTED_STEP, demo_pipeline
from senro.cli.run import run_plan
from senro.devcluster import IMAGE, DevClusterThread

NAMESPACE = "demo"


def run_demo(*, run_dir: str | None, plain: bool) -> int:
    """Starts an embedded cluster in this process, runs the example pipeline on it, and returns the exit code."""
    plan = demo_pipeline(IMAGE, NAMESPACE).build()
    with DevClusterThread(namespaces=(NAMESPACE,)) as cluster:
        click.echo(
            f"An embedded Kubernetes cluster answers at {cluster.server}.\n"
            f"Its pods are processes of this machine{_isolation(cluster.mode)}.\n"
            f"Two steps run here and three in pods; the first pod of {EVICTED_STEP} will be evicted.\n"
        )
        cluster.faults.fail_pod(step=EVICTED_STEP, reason="Evicted", at="middle")
        # The variables of the user's own cluster must not take part.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SENRO_K8S_")}
        environ = {**inherited, **cluster.environment()}
        code = run_plan(plan, run_dir=run_dir, jobs=None, plain=plain, quiet=False, environ=environ)
    if code == 0:
        click.echo(
            f"\n{EVICTED_STEP} was evicted and ran again; had its command failed by itself, it would not have.\n"
            "Next: read examples/release.py, then `senro plan examples/release.py`."
        )
    return code


def _isolation(mode: str) -> str:
    if mode == "bubblewrap":
        return " in namespaces of their own"
    return ", without isolation: bubblewrap cannot run here, so read-only mounts are not enforced"
