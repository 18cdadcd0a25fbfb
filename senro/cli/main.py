"""The command line. The module of a command is imported when it runs, so that `senro --help` starts quickly."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from senro._version import __version__
from senro.api.error_groups import single_error
from senro.cli.exit_codes import CANCELLED, FAILED, REFUSED
from senro.domain.errors import RunBroken, SenroError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="senro")
def main() -> None:
    """Run the steps of a pipeline as pods of a Kubernetes cluster.

    The variables SENRO_K8S_SERVER and SENRO_K8S_CA_FILE name the cluster. Credentials come from SENRO_K8S_TOKEN_FILE,
    or SENRO_K8S_TOKEN, or SENRO_K8S_CLIENT_CERT_FILE with SENRO_K8S_CLIENT_KEY_FILE. A kubeconfig is never read.

    Exit codes: 0 success, 1 the run failed (`ws diff`: something differs), 2 wrong usage or refused, 130 cancelled.
    """


@main.command()
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--run-dir", metavar="DIR", default=None, help="Where the run's folder is made (.senro/runs).")
@click.option("--jobs", type=click.IntRange(min=1), default=None, help="How many steps may run at once (no limit).")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
@click.option("--quiet", is_flag=True, help="Only failures and the result of the run.")
def run(file: str, run_dir: str | None, jobs: int | None, *, plain: bool, quiet: bool) -> None:
    """Run the pipeline of a Python file."""
    from senro.cli.run import run_file  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: run_file(file, run_dir=run_dir, jobs=jobs, plain=plain, quiet=quiet))


@main.command()
@click.argument("file", metavar="FILE[:NAME]")
@click.option("--pods", is_flag=True, help="Print each pod that a run would create, as YAML.")
def plan(file: str, *, pods: bool) -> None:
    """Check the pipeline of a Python file and show its plan. senro does not connect to the cluster."""
    from senro.cli.plan import show_plan  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: show_plan(file, pods=pods))


@main.command()
@click.argument("file", metavar="FILE|-")
@click.option("--container", metavar="NAME", default=None, help="The step's container (`step`, else the first).")
@click.option(
    "--deadline",
    type=click.IntRange(min=1),
    default=None,
    help="The activeDeadlineSeconds that was the step's timeout (that of the pod, if senro created it).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array with an object for each pod.")
def explain(file: str, container: str | None, deadline: int | None, *, as_json: bool) -> None:
    """Explain the result of the step in a pod.

    FILE holds the output of `kubectl get pod NAME -o json`, of `kubectl get pods,events -o json`, or of
    `kubectl get pod NAME -o json --watch`, which is the most precise. senro does not connect to the cluster.
    """
    from senro.cli.explain import explain_file  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: explain_file(file, container=container, deadline=deadline, as_json=as_json))


@main.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="The port on 127.0.0.1 (a free one).")
def devcluster(port: int) -> None:
    """Serve the embedded cluster until interrupted, and print the variables that point to it."""
    from senro.cli.devcluster import serve_devcluster  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: serve_devcluster(port))


@main.command()
@click.option("--run-dir", metavar="DIR", default=None, help="Where the run's folder is made (.senro/runs).")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
def demo(run_dir: str | None, *, plain: bool) -> None:
    """Run an example pipeline, with local steps and pods, on the embedded cluster."""
    from senro.cli.demo import run_demo  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: run_demo(run_dir=run_dir, plain=plain))


@main.group()
def ws() -> None:
    """List, compare and fetch the workspaces of earlier runs.

    RUN is the id of a run, the beginning of an id, or `latest`. senro does not connect to the cluster.
    """


_RUNS = click.option("--run-dir", metavar="DIR", default=None, help="The folder that holds the runs (.senro/runs).")


@ws.command("ls")
@click.argument("run", required=False)
@click.argument("name", required=False)
@_RUNS
def ws_ls(run: str | None, name: str | None, run_dir: str | None) -> None:
    """List the runs, the workspaces of RUN, or the files of its workspace NAME."""
    from senro.cli.workspaces.commands import show  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: show(run, name, run_dir=run_dir))


@ws.command("pull")
@click.argument("run")
@click.argument("name")
@click.argument("dest", required=False)
@click.option("--force", is_flag=True, help="Replace a DEST that is not empty.")
@_RUNS
def ws_pull(run: str, name: str, dest: str | None, run_dir: str | None, *, force: bool) -> None:
    """Restore the workspace NAME, as RUN left it, into the folder DEST (./NAME)."""
    from senro.cli.workspaces.commands import fetch  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: fetch(run, name, dest, force=force, run_dir=run_dir))


@ws.command("diff")
@click.argument("run_a")
@click.argument("run_b")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: each path that differs, with both entries.")
@_RUNS
def ws_diff(run_a: str, run_b: str, name: str | None, run_dir: str | None, *, as_json: bool) -> None:
    """Compare the workspaces of two runs, or only the one called NAME.

    Exits 0 if they are equal, 1 if something differs.
    """
    from senro.cli.workspaces.commands import compare  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: compare(run_a, run_b, name, as_json=as_json, run_dir=run_dir))


@main.group()
def cache() -> None:
    """Maintain the cache: snapshots, scratch caches and persistent workspaces, in SENRO_CACHE_DIR."""


@cache.command()
@click.option(
    "--max-age", metavar="AGE", default="30d", show_default=True, help="Remove what was unused for this long."
)
@click.option(
    "--max-size", metavar="SIZE", default=None, help="Then remove the longest unused until the rest fits: 10Gi."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
def gc(max_age: str, max_size: str | None, *, dry_run: bool) -> None:
    """Remove what was not used for a long time.

    Always kept: what an active run uses, and the snapshots of a run that failed, was cancelled or was killed, until
    its folder is removed. A persistent workspace is removed by its own max_age.
    """
    from senro.cli.gc import collect  # noqa: PLC0415 - see the docstring of this module

    _exit(lambda: collect(max_age, max_size, dry_run=dry_run))


def _exit(command: Callable[[], int]) -> None:
    """Run the command and exit with the code that it returns. A `SenroError` is printed without a traceback."""
    try:
        code = command()
    except (SenroError, BaseExceptionGroup) as raised:
        error = single_error(raised)
        if not isinstance(error, SenroError):
            raise
        click.echo(f"senro: {error}", err=True)
        code = FAILED if isinstance(error, RunBroken) else REFUSED
    except KeyboardInterrupt:
        code = CANCELLED
    sys.exit(code)
