"""A workspace's content: entries, digest, diff, excludes, symbolic links."""
