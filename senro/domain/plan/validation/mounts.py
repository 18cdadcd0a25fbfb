"""The rules for the mounts of a step."""

from __future__ import annotations

import posixpath
from collections import Counter
from typing import Final, cast

from senro.domain.pipeline.workspace import AnyMount, Mode, Mount, ScratchMount
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote
from senro.domain.plan.validation.workspace_fields import Known, read_cache, read_workspace
from senro.domain.tree.paths import MAX_NAME

_SEGMENT_BYTES: Final = 255  # NAME_MAX of Linux

_RESERVED_TREES: Final = {
    "/proc": "the kernel's",
    "/dev": "the container's devices",
    "/sys": "the kernel's",
    "/run/senro": "where senro puts the step's secrets",
    "/senro": "senro's own",
}
"""Nothing may be mounted at or below these."""

_RESERVED_PATHS: Final = {
    "/": "the whole container",
    "/run": "above /run/senro, where senro puts the step's secrets",
    "/etc": "where the kubelet puts hosts, hostname and resolv.conf, which would come back with the files",
}
"""Nothing may be mounted at these, but below them."""


def read_mounts(value: object, reader: FieldReader, known: Known) -> tuple[AnyMount, ...]:
    """The mounts of a step. Refuses invalid ones, and those that conflict.

    `known` has the workspaces and caches that were read before, so that one that many steps mount is refused once.
    """
    mounts: list[AnyMount] = []
    for place, item in enumerate(reader.items(value, "mounts")):
        if is_instance(item, Mount):
            path = _read_path(item.path, reader, place)
            mode = reader.one_of(item.mode, f"the mode of entry {place} of mounts", ("rw", "ro"), "mount-mode")
            mounts.append(Mount(read_workspace(item.workspace, reader, place, known), path, cast("Mode", mode)))
        elif is_instance(item, ScratchMount):
            path = _read_path(item.path, reader, place)
            mounts.append(ScratchMount(read_cache(item.cache, reader, place, known), path))
        else:
            reader.refuse("type", f"entry {place} of mounts is {quote(item)}; write workspace.at('/src')")
    _refuse_together(mounts, reader)
    return tuple(mounts)


def _read_path(value: object, reader: FieldReader, place: int) -> str:
    # No valid path has a NUL, so the replacement of a refused path differs from all others.
    refused = f"/\0{place}"
    path = reader.path(value, f"the path of entry {place} of mounts")
    if path is None:
        return refused
    rule, message = _path_problem(path)
    if rule:
        reader.refuse(rule, f"the mount path {quote(path)} {message}")
        return refused
    return path


def _path_problem(path: str) -> tuple[str, str]:
    """The rule that `path` violates, and the end of the message; empty if it violates none."""
    if not path.startswith("/"):
        return "mount-relative", "is not absolute; begin it with `/`"
    segments = path.split("/")
    if ".." in segments:
        return "mount-dots", "has a `..`; write the path that it leads to"
    if ":" in path:
        return "mount-colon", "has a `:`, which runtimes use as a separator; choose another name"
    normal = "/" + posixpath.normpath(path).lstrip("/")
    if normal in _RESERVED_PATHS:
        return "mount-reserved", f"is {_RESERVED_PATHS[normal]}; choose a folder of its own such as `/src`"
    for tree, whose in _RESERVED_TREES.items():
        if f"{normal}/".startswith(f"{tree}/"):
            return "mount-reserved", f"is {whose}; choose a folder of its own such as `/src`"
    if path != normal:
        return "mount-normal", f"is not in its shortest form; write {quote(normal)}"
    if len(path.encode()) > MAX_NAME or any(len(segment.encode()) > _SEGMENT_BYTES for segment in segments):
        return "mount-long", "is longer than Linux allows; shorten it"
    return "", ""


def _refuse_together(mounts: list[AnyMount], reader: FieldReader) -> None:
    for path, count in Counter(mount.path for mount in mounts).items():
        if count > 1:
            reader.refuse("mount-twice", f"{quote(path)} is mounted {count} times; give each mount its own path")
    paths = sorted({mount.path for mount in mounts})
    for outer in paths:
        for inner in paths:
            if inner.startswith(f"{outer}/"):
                reader.refuse(
                    "mount-nested",
                    f"the mount {quote(inner)} lies inside the mount {quote(outer)}; put them side by side",
                )
    named = ((mount.name, isinstance(mount, ScratchMount)) for mount in mounts if mount.name)
    for (name, is_cache), count in Counter(named).items():
        if count > 1:
            kind = "scratch cache" if is_cache else "workspace"
            reader.refuse(
                "workspace-twice",
                f"the {kind} {quote(name)} is mounted {count} times, and each would have its own content; "
                "mount it once",
            )
