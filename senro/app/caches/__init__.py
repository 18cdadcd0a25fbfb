"""Scratch caches: computing keys, restoring entries before a step and saving them after it."""
