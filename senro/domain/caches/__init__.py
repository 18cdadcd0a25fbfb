"""Keys, records and bounds of scratch caches and persistent workspaces."""
