"""Reporters of the command line, and the choice between them."""

from senro.app.reporters.choice import choose

__all__ = ["choose"]
