"""The patterns of run folders, which belong to no workspace."""

from __future__ import annotations

import posixpath

RUNS = "????????T??????Z-*/"
"""The pattern of run folders: the start time in UTC, then random digits."""


def runs_inside(folder: str, run_dir: str) -> tuple[str, ...]:
    """The exclude patterns for the runs below `run_dir`, which may be relative to `folder`; empty if it is outside."""
    folder = posixpath.normpath(folder)
    inside = posixpath.relpath(posixpath.normpath(posixpath.join(folder, run_dir)), folder)
    if inside == ".":
        return (RUNS,)
    if inside.split("/")[0] == "..":
        return ()
    # Patterns have no escapes; `?` matches any character.
    plain = "".join("?" if character in "*?\\" else character for character in inside)
    return (("?" + plain[1:] if plain.startswith("!") else plain) + "/",)
