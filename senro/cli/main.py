"""The command line. Each command's work is imported when it is called: `senro --help` must be quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from senro._version import __version__
from senro.cli.exit_codes import CANCELLED, FAILED, REFUSED
from senro.domain.errors import RunBroken, SenroError

T = TypeVar("T")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="senro")
def main() -> None:
    """Run the steps of a pipeline as pods of a Kubernetes cluster.

    The cluster comes from SENRO_K8S_SERVER, SENRO_K8S_CA_FILE and one of SENRO_K8S_TOKEN_FILE, SENRO_K8S_TOKEN,
    SENRO_K8S_CLIENT_CERT_FILE with SENRO_K8S_CLIENT_KEY_FILE. A kubeconfig is never read.

    Exit codes: 0 success, 1 the run failed (of `ws diff`: something differs), 2 usage or refusal, 130 cancelled.
    """


@main.command()
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--run-dir", metavar="DIR", default=None, help="Where the run's folder is made (.senro/runs).")
@click.option("--jobs", type=click.IntRange(min=1), default=None, help="How many steps run at once (no limit).")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
@click.option("--quiet", is_flag=True, help="Only failures and the last line.")
def run(file: str, run_dir: str | None, jobs: int | None, *, plain: bool, quiet: bool) -> None:
    """Run the pipeline of a Python file."""
    from senro.cli.run import run_file  # noqa: PLC0415 - see this module's first line

    _exit(lambda: run_file(file, run_dir=run_dir, jobs=jobs, plain=plain, quiet=quiet))


@main.command()
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--pods", is_flag=True, help="Each pod that would be created, as YAML.")
def plan(file: str, *, pods: bool) -> None:
    """Check the pipeline of a Python file and show its plan. Nothing is created or connected to."""
    from senro.cli.plan import show_plan  # noqa: PLC0415 - see this module's first line

    _exit(lambda: show_plan(file, pods=pods))


@main.command()
@click.argument("file", metavar="FILE|-")
@click.option("--container", metavar="NAME", default=None, help="The container whose end counts (step, or the first).")
@click.option(
    "--deadline",
    type=click.IntRange(min=1),
    default=None,
    help="The activeDeadlineSeconds that was the step's own timeout (the pod's, where senro made it).",
)
@click.option("--json", "as_json", is_flag=True, help="For programs: an array of objects, one for each pod.")
def explain(file: str, container: str | None, deadline: int | None, *, as_json: bool) -> None:
    """Say what became of the step in a pod, and why.

    FILE holds what `kubectl get pod NAME -o json` printed, or `kubectl get pods,events -o json`, or what
    `kubectl get pod NAME -o json --watch` printed over time, which tells most. Nothing is connected to.
    """
    from senro.cli.explain import explain_file  # noqa: PLC0415 - see this module's first line

    _exit(lambda: explain_file(file, container=container, deadline=deadline, as_json=as_json))


@main.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The port on 127.0.0.1 (any free one).")
def devcluster(port: int) -> None:
    """Serve the embedded cluster until stopped, and print how to use it."""
    from senro.cli.devcluster import serve_devcluster  # noqa: PLC0415 - see this module's first line

    _exit(lambda: serve_devcluster(port))


@main.command()
@click.option("--run-dir", metavar="DIR", default=None, help="Where the run's folder is made (.senro/runs).")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
def demo(run_dir: str | None, *, plain: bool) -> None:
    """Run a pipeline of local steps and pods on the embedded cluster."""
    from senro.cli.demo import run_demo  # noqa: PLC0415 - see this module's first line

    _exit(lambda: run_demo(run_dir=run_dir, plain=plain))


@main.group()
def ws() -> None:
    """Look at the workspaces of runs, and fetch them.

    RUN is a run's id, the beginning of one, or `latest`. Nothing is connected to.
    """


_RUNS = click.option("--run-dir", metavar="DIR", default=None, help="Where the folders of runs are (.senro/runs).")


@ws.command("ls")
@click.argument("run", required=False)
@click.argument("name", required=False)
@_RUNS
def ws_ls(run: str | None, name: str | None, run_dir: str | None) -> None:
    """List the runs; of a RUN the workspaces; of a workspace NAME what it holds."""
    from senro.cli.workspaces.commands import show  # noqa: PLC0415 - see this module's first line

    _exit(lambda: show(run, name, run_dir=run_dir))


@ws.command("pull")
@click.argument("run")
@click.argument("name")
@click.argument("dest", required=False)
@click.option("--force", is_flag=True, help="Replace a DEST that is not empty, whole.")
@_RUNS
def ws_pull(run: str, name: str, dest: str | None, run_dir: str | None, *, force: bool) -> None:
    """Put the workspace NAME, as RUN left it, in the folder DEST (./NAME)."""
    from senro.cli.workspaces.commands import fetch  # noqa: PLC0415 - see this module's first line

    _exit(lambda: fetch(run, name, dest, force=force, run_dir=run_dir))


@ws.command("diff")
@click.argument("run_a")
@click.argument("run_b")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs: every path that differs, with both its entries.")
@_RUNS
def ws_diff(run_a: str, run_b: str, name: str | None, run_dir: str | None, *, as_json: bool) -> None:
    """Say what differs between the workspaces of two runs, or the one called NAME.

    Exits 0 where nothing does, 1 where something does.
    """
    from senro.cli.workspaces.commands import compare  # noqa: PLC0415 - see this module's first line

    _exit(lambda: compare(run_a, run_b, name, as_document=as_json, run_dir=run_dir))


@main.group()
def cache() -> None:
    """Look after the cache: snapshots, scratch caches and persistent workspaces, in SENRO_CACHE_DIR."""


@cache.command()
@click.option("--max-age", metavar="AGE", default="30d", show_default=True, help="Drop what was not used for so long.")
@click.option("--max-size", metavar="SIZE", default=None, help="Then drop the longest unused until it fits: 10Gi.")
@click.option("--dry-run", is_flag=True, help="Remove nothing, say what would be.")
def gc(max_age: str, max_size: str | None, *, dry_run: bool) -> None:
    """Drop what nobody has used for long.

    Kept whatever the bounds: what runs need that go on, or that did not end well and whose folder is there. Persistent
    workspaces go by their own max_age.
    """
    from senro.cli.gc import collect  # noqa: PLC0415 - see this module's first line

    _exit(lambda: collect(max_age, max_size, dry_run=dry_run))


def _exit(command: Callable[[], int]) -> None:
    """Exit with the command's code; what senro refuses is a sentence, never a traceback."""
    try:
        code = _unwrapped(command)
    except SenroError as error:
        click.echo(f"senro: {error}", err=True)
        code = FAILED if isinstance(error, RunBroken) else REFUSED
    except KeyboardInterrupt:
        code = CANCELLED
    sys.exit(code)


def _unwrapped(command: Callable[[], int]) -> int:
    """The command's code; an error of ours that a task group wrapped comes out as itself."""
    try:
        return command()
    except BaseExceptionGroup as group:
        error: BaseException | None = group.subgroup(SenroError)
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is None:
            raise
        raise error from error.__cause__
