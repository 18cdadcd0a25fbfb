"""Transfers of workspaces: the scripts in the pod, compression, and the retry policy."""
