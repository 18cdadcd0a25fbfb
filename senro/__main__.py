"""`python -m senro` is the command line."""

from __future__ import annotations

from senro.app.main import main

main(prog_name="senro")
