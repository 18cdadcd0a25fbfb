"""The reporters of the command line, and the choice between them."""

from senro.cli.reporters.choose import choose

__all__ = ["choose"]
