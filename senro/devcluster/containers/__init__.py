"""The container runtime: processes of this machine, their file systems, their logs."""
