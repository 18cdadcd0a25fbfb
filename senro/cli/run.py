"""`senro run`."""

from __future__ import annotations

import sys

from senro.cli.exit_codes import CANCELLED, FAILED
from senro.cli.pipeline_file import load_pipeline
from senro.domain.plan.plan import Plan


def run_file(reference: str, *, run_dir: str | None, jobs: int | None, plain: bool, quiet: bool) -> int:
    """Builds and runs the pipeline that `reference` (FILE[:NAME]) names. Returns the exit code."""
    return run_plan(load_pipeline(reference).build(), run_dir=run_dir, jobs=jobs, plain=plain, quiet=quiet)


def run_plan(
    plan: Plan,
    *,
    run_dir: str | None,
    jobs: int | None,
    plain: bool,
    quiet: bool,
    environ: dict[str, str] | None = None,
) -> int:
    """Runs a plan and reports to stdout. SIGINT and SIGTERM cancel the run. Returns the exit code."""
    from senro.api.run import DEFAULT_RUN_DIR, run_sync  # noqa: PLC0415 - slow to import; a refused pipeline does not need it
    from senro.api.wiring import system_clock  # noqa: PLC0415 - as above
    from senro.cli.reporters import choose  # noqa: PLC0415 - as above

    reporter = choose(sys.stdout, plain=plain, quiet=quiet, clock=system_clock())
    result = run_sync(
        plan,
        run_dir=run_dir or DEFAULT_RUN_DIR,
        jobs=jobs,
        reporter=reporter,
        environ=environ,
        handle_signals=True,
    )
    if result.state == "cancelled":
        return CANCELLED
    return 0 if result.ok else FAILED
