"""Chooses the reporter for a stream."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import TextIO

from senro.cli.reporters.plain import PlainReporter
from senro.cli.reporters.quiet import QuietReporter
from senro.cli.reporters.safe_stream import Lines, SafeStream
from senro.ports.clock import Clock
from senro.ports.reporter import Reporter


def choose(
    stream: TextIO, *, plain: bool, quiet: bool, clock: Clock, environ: Mapping[str, str] | None = None
) -> Reporter:
    """Returns a quiet or a plain reporter if asked for, else a live table if `stream` can show one, else a plain one.

    A live table needs the package rich, a terminal with a UTF encoding and a movable cursor (TERM is set and neither
    `dumb` nor `unknown`), and no CI system that stores the output (CI is unset). `environ` defaults to `os.environ`.
    """
    environ = os.environ if environ is None else environ
    if quiet:
        return QuietReporter(Lines(stream))
    if not plain and _moves_its_cursor(stream, environ) and importlib.util.find_spec("rich") is not None:
        from senro.cli.reporters.live import LiveReporter  # noqa: PLC0415 - rich is an extra, and slow to import

        return LiveReporter(stream, clock, colours=not environ.get("NO_COLOR"))
    return PlainReporter(Lines(stream), clock)


def _moves_its_cursor(stream: TextIO, environ: Mapping[str, str]) -> bool:
    safe = SafeStream(stream)
    if not safe.isatty() or not safe.encoding.lower().startswith("utf"):
        return False
    return environ.get("TERM", "") not in ("", "dumb", "unknown") and not environ.get("CI")
