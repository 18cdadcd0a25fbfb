"""Steps that run on the coordinator itself, as child processes in groups of their own."""

from senro.adapters.process.local import LocalProcesses

__all__ = ["LocalProcesses"]
