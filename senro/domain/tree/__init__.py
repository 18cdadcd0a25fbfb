"""The content of a workspace: entries, digest, diff, excludes, symbolic links."""
