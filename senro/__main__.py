"""Runs the command line: `python -m senro`."""

from __future__ import annotations

from senro.cli.main import main

main(prog_name="senro")
