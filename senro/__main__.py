"""`python -m senro` is the command line."""

from __future__ import annotations

from senro.cli.main import main

main(prog_name="senro")
