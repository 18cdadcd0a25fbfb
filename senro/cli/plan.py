"""`senro plan`."""

from __future__ import annotations

import click

from senro.cli.pipeline_file import load_pipeline


def show_plan(reference: str, *, pods: bool) -> int:
    """Prints the plan, or with `pods` the manifests of its pods. Returns the exit code."""
    from senro.cli.plan_text import plan_text, pods_text  # noqa: PLC0415 - YAML is only needed here

    plan = load_pipeline(reference).build()
    click.echo(pods_text(plan) if pods else plan_text(plan), nl=False)
    return 0
