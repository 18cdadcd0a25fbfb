"""The content of workspaces: opened before a run, kept as snapshots after each step."""
