"""Runs local steps as child processes of the coordinator, each in a process group of its own."""

from senro.adapters.process.local import LocalProcesses

__all__ = ["LocalProcesses"]
