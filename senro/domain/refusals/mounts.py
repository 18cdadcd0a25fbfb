"""The rules of what a step mounts, and where."""

from __future__ import annotations

import posixpath
from collections import Counter
from typing import Final, cast

from senro.domain.excludes import exclude_refusals
from senro.domain.names import is_dns_label
from senro.domain.refusals.reading import Reader, is_a, shown
from senro.domain.workspace import Mode, Mount, Scope, Workspace

_PATH_BYTES: Final = 4095  # PATH_MAX of Linux without the NUL
_SEGMENT_BYTES: Final = 255  # NAME_MAX of Linux

_RESERVED_TREES: Final = {
    "/proc": "the kernel's",
    "/dev": "the container's devices",
    "/sys": "the kernel's",
    "/run/senro": "where senro puts the step's secrets",
    "/senro": "senro's own",
}
"""Nothing may be mounted at these or under them."""

_RESERVED_PATHS: Final = {
    "/": "the whole container",
    "/run": "above /run/senro, where senro puts the step's secrets",
    "/etc": "where the kubelet puts hosts, hostname and resolv.conf, which would come back with the files",
}
"""Nothing may be mounted at these; what lies under them is free."""


def read_mounts(value: object, reader: Reader, known: dict[int, Workspace]) -> tuple[Mount, ...]:
    """The mounts that are some, each normal; refuses each that cannot be, and those that do not fit together.

    `known` holds what was read of each Workspace, by its `id`: one that many steps mount is refused once.
    """
    mounts = []
    for place, item in enumerate(reader.items(value, "mounts")):
        if is_a(item, Mount):
            mounts.append(_read_mount(item, reader, place, known))
        else:
            reader.refuse("type", f"entry {place} of mounts is {shown(item)}; write workspace.at('/src')")
    _refuse_together(mounts, reader)
    return tuple(mounts)


def _read_mount(mount: Mount, reader: Reader, place: int, known: dict[int, Workspace]) -> Mount:
    # No path that is accepted has a NUL: what stands in for a refused one is equal to no other.
    refused = f"/\0{place}"
    path = reader.path(mount.path, f"the path of entry {place} of mounts", refused)
    rule, message = ("", "") if path == refused else _path_problem(path)
    if rule:
        reader.refuse(rule, f"the mount path {shown(path)} {message}")
        path = refused
    mode = reader.choice(mount.mode, f"the mode of entry {place} of mounts", ("rw", "ro"), "mount-mode")
    key = id(mount.workspace)
    if key not in known:
        known[key] = _read_workspace(mount.workspace, reader, place)
    return Mount(known[key], path, cast("Mode", mode))


def _path_problem(path: str) -> tuple[str, str]:
    """The rule that `path` breaks and what to say of it; empty where it breaks none."""
    if not path.startswith("/"):
        return "mount-relative", "is not absolute; begin it with `/`"
    segments = path.split("/")
    if ".." in segments:
        return "mount-dots", "has a `..`; write where it leads"
    if ":" in path:
        return "mount-colon", "has a `:`, which runtimes take for a separator; choose another name"
    normal = "/" + posixpath.normpath(path).lstrip("/")
    if normal in _RESERVED_PATHS:
        return "mount-reserved", f"is {_RESERVED_PATHS[normal]}; choose a folder of its own such as `/src`"
    for tree, whose in _RESERVED_TREES.items():
        if f"{normal}/".startswith(f"{tree}/"):
            return "mount-reserved", f"is {whose}; choose a folder of its own such as `/src`"
    if path != normal:
        return "mount-normal", f"is not in its shortest form; write {shown(normal)}"
    if len(path.encode()) > _PATH_BYTES or any(len(segment.encode()) > _SEGMENT_BYTES for segment in segments):
        return "mount-long", "is longer than Linux allows; shorten it"
    return "", ""


def _refuse_together(mounts: list[Mount], reader: Reader) -> None:
    for path, count in Counter(mount.path for mount in mounts).items():
        if count > 1:
            reader.refuse("mount-twice", f"{shown(path)} is mounted {count} times; give each mount its own path")
    paths = sorted({mount.path for mount in mounts})
    for outer in paths:
        for inner in paths:
            if inner.startswith(f"{outer}/"):
                reader.refuse(
                    "mount-nested",
                    f"the mount {shown(inner)} lies inside the mount {shown(outer)}; put them side by side",
                )
    for name, count in Counter(mount.workspace.name for mount in mounts if mount.workspace.name).items():
        if count > 1:
            reader.refuse(
                "workspace-twice",
                f"the workspace {shown(name)} is mounted {count} times, and each would have its own content; "
                "mount it once",
            )


def _read_workspace(value: object, reader: Reader, place: int) -> Workspace:
    if not is_a(value, Workspace):
        reader.refuse("type", f"the workspace of entry {place} of mounts is {shown(value)}; write a senro.Workspace")
        return Workspace("")
    before = len(reader.refusals)
    name = reader.text(value.name, "a workspace's name", "")
    if len(reader.refusals) == before and not is_dns_label(name):
        reader.refuse(
            "workspace-name",
            f"the workspace name {shown(name)} is not up to 63 lower-case letters, digits and `-`, "
            "with no `-` at an end; choose one such as 'src'",
        )
        name = ""
    what = f"of the workspace {shown(name)}"
    path = None if value.path is None else reader.path(value.path, f"the path {what}", "x")
    if path == "":
        reader.refuse("workspace-path", f"the path {what} is empty; write '.' for the working folder, or leave it out")
    exclude = reader.texts(value.exclude, f"exclude {what}")
    for refusal in exclude_refusals(reader.where, exclude):
        reader.refuse(refusal.rule, f"{refusal.message} ({what.removeprefix('of ')})")
    scope = reader.choice(value.scope, f"the scope {what}", ("run", "step"), "workspace-scope")
    return Workspace(name, path=path, scope=cast("Scope", scope), exclude=exclude)
