"""What of a folder is runs, and so is no part of what a run works on."""

from __future__ import annotations

import posixpath

RUNS = "????????T??????Z-*/"
"""The folders of runs, by their names: the time of the run's begin in UTC, then drawn digits."""


def runs_inside(folder: str, run_dir: str) -> tuple[str, ...]:
    """The pattern, as `domain.excludes` has them, for the runs below `run_dir`; none where they lie outside `folder`.

    A `run_dir` that is relative is one of `folder`. Where both are one, it is `RUNS`.
    """
    folder = posixpath.normpath(folder)
    inside = posixpath.relpath(posixpath.normpath(posixpath.join(folder, run_dir)), folder)
    if inside == ".":
        return (RUNS,)
    if inside.split("/")[0] == "..":
        return ()
    # A name may hold what patterns have other uses for; there is no escape, and `?` is any character.
    plain = "".join("?" if character in "*?\\" else character for character in inside)
    return (("?" + plain[1:] if plain.startswith("!") else plain) + "/",)
