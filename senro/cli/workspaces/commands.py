"""The commands `senro ws ls`, `pull` and `diff`. Each function prints its result and returns the exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import click

from senro.api.run import DEFAULT_RUN_DIR
from senro.api.wiring import content_store, runs_in
from senro.cli.workspaces.diff import differences, to_json, to_text
from senro.cli.workspaces.list import list_entries, list_runs, list_workspaces
from senro.cli.workspaces.lookup import Stored
from senro.cli.workspaces.pull import pull

T = TypeVar("T")

DIFFERENT = 1
"""The exit code of `senro ws diff` if something differs, as that of diff(1)."""


def show(run: str | None, name: str | None, *, run_dir: str | None) -> int:
    """Lists the runs, the workspaces of `run`, or the files of its workspace `name`."""

    async def work(stored: Stored) -> list[str]:
        if run is None:
            return await list_runs(stored)
        return await list_workspaces(stored, run) if name is None else await list_entries(stored, run, name)

    click.echo("\n".join(_with_stored(run_dir, work)))
    return 0


def fetch(run: str, name: str, destination: str | None, *, force: bool, run_dir: str | None) -> int:
    """Restores the workspace `name` of `run` into the folder `destination`, by default one of its name."""
    click.echo("\n".join(_with_stored(run_dir, lambda stored: pull(stored, run, name, destination, force=force))))
    return 0


def compare(before: str, after: str, name: str | None, *, as_json: bool, run_dir: str | None) -> int:
    """Compares the workspaces of two runs, or only the one called `name`."""
    found = _with_stored(run_dir, lambda stored: differences(stored, before, after, name))
    click.echo(json.dumps(to_json(found), indent=2) if as_json else "\n".join(to_text(found)))
    return 0 if all(one.equal for one in found) else DIFFERENT


def _with_stored(run_dir: str | None, work: Callable[[Stored], Awaitable[T]]) -> T:
    stored = Stored(runs_in(run_dir or DEFAULT_RUN_DIR), content_store(os.environ))

    async def call() -> T:
        return await work(stored)

    return anyio.run(call)
