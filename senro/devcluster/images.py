"""The one image of the embedded cluster, so far."""

IMAGE = "registry.dev/tools@sha256:" + "5e9d0" * 12 + "c1a5"
"""A pinned name that means "the host's own tools". Any other name is run with the same tools."""
