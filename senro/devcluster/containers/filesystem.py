"""What a container sees: its own root folder, the host's top folders read-only, its volumes on top.

A volume may be mounted at a path that the host does not have (`/usr/local/ws`). Its parents are then folders of the
container's root, and everything the host has beside it is bound into them one by one.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from senro.devcluster.containers.runtime import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from senro.devcluster.containers.runtime import Mount

_OWN = frozenset({"proc", "dev", "sys", "tmp", "run", "lost+found", "old_root"})
"""Top names that are the container's own, or that no image has."""

_PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_OWN_PROGRAMS = "/usr/bin"
"""Where an image has those of its own."""

_BEHIND = "/run/.senro-programs"
"""Where an image without some tools has the host's folders of programs."""

_SYSTEM = ("/proc", "/dev", "/sys")


class FileSystem:
    """One container's view, as bubblewrap arguments and as a map back to the host's files."""

    def __init__(
        self,
        root: Path,
        mounts: Sequence[Mount],
        *,
        hidden: Path,
        absent_tools: frozenset[str] = frozenset(),
        programs: Mapping[str, str] | None = None,
    ) -> None:
        self._root = root
        self._hidden = hidden
        self._programs = dict(programs or {})
        self._absent_tools = absent_tools | self._programs.keys()
        self._rebuilt: dict[str, Path] = {}
        self._mounts = sorted(
            ((self.canonical(mount.target), mount) for mount in mounts), key=lambda pair: len(pair[0].split("/"))
        )
        # A home is the container's own to write to, and the host's dot files in it are nobody's business.
        self._homes = {"/root", os.path.realpath(Path.home())} - {"/"}
        self._shown = _tool_folders()
        self._opened: set[str] = set(self._homes)
        for home in self._homes:
            self._opened.update(_parents(home))

    def canonical(self, path: str) -> str:
        """The path with the host's symbolic links followed, where the host's folders are what is seen (`/var/run`)."""
        plain = posixpath.normpath("/" + path.lstrip("/"))
        top = plain.split("/")[1]
        return plain if top in _OWN else os.path.realpath(plain)

    def prepare(self) -> None:
        """Make the root folder, and decide which folders of the host have to be rebuilt in it.

        `StartError` where a mount point lies below a file (recording create-container-error).
        """
        for name in ("tmp", "run", "proc", "dev", "sys"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
        (self._root / "tmp").chmod(0o1777)
        for folder in self._folders_with_absent_tools():
            self._rebuild(folder)
        for target, mount in self._mounts:
            self._open_parents(target, partial(_mount_error, mount, self._root))
            if self._mounted(posixpath.dirname(target)) is None:
                (self._root / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)

    def _folders_with_absent_tools(self) -> list[str]:
        """Real folders of programs that hold one of the image's missing tools."""
        if not self._absent_tools:
            return []
        folders = {os.path.realpath(folder) for folder in (*self._shown, *_PROGRAMS)}
        own = {os.path.realpath(_OWN_PROGRAMS)} if self._programs else set()
        return sorted(
            own
            | {folder for folder in folders if any(os.path.lexists(f"{folder}/{name}") for name in self._absent_tools)}
        )

    def _rebuild(self, folder: str) -> None:
        """Make a folder of links to the host's programs, without the tools that the image lacks.

        The host's own folder is bound elsewhere for them to lead to; no search path has that place. A thousand links
        take half a second on some disks, so one folder serves all containers of such images.
        """
        own = self._programs if folder == os.path.realpath(_OWN_PROGRAMS) else {}
        what = repr((folder, sorted(self._absent_tools), sorted(own.items())))
        links = self._hidden / "programs" / hashlib.sha256(what.encode()).hexdigest()
        self._rebuilt[folder] = links
        if links.exists():
            return
        made = links.with_name(f"{links.name}.new")
        made.mkdir(parents=True)
        for name in _names(folder):
            real = posixpath.basename(os.path.realpath(posixpath.join(folder, name)))
            if name not in self._absent_tools and real not in self._absent_tools:
                (made / name).symlink_to(f"{_behind(folder)}/{name}")
        for name, script in own.items():
            (made / name).write_text(script)
            (made / name).chmod(0o755)
        made.rename(links)

    def enter_workdir(self, workdir: str) -> None:
        """Make the working directory, as the runtime does; `StartError` where it cannot (recording bad-workdir)."""
        target = self.canonical(workdir)
        inside = self._mounted(target)
        if inside is not None:
            try:
                inside.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StartError(_mkdir_error(workdir, error)) from error
            return
        self._open_parents(
            target, lambda place: StartError(f"error during container init: mkdir {place}: not a directory")
        )
        if not Path(target).is_dir() or target.split("/")[1] in _OWN:
            (self._root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _open_parents(self, target: str, refuse: Callable[[str], StartError]) -> None:
        parts = target.strip("/").split("/")
        if parts[0] in _OWN:
            return
        for depth in range(1, len(parts)):
            place = "/" + "/".join(parts[:depth])
            if self._mounted(place) is not None:
                return
            if os.path.lexists(place) and not Path(place).is_dir():
                raise refuse(place)
        if not Path(target).exists():
            self._opened.update(_parents(target))

    def arguments(self) -> list[str]:
        """The mounts as bubblewrap's arguments, the root first."""
        arguments = ["--bind", str(self._root), "/"]
        for name in _names("/"):
            if name not in _OWN:
                arguments += self._host(f"/{name}")
        for folder, links in self._rebuilt.items():
            arguments += ["--ro-bind", folder, _behind(folder), "--ro-bind", str(links), folder]
        arguments += self._resolver()
        hidden = str(self._hidden)
        if hidden.split("/")[1] not in _OWN:
            arguments += ["--tmpfs", hidden]
        arguments += ["--proc", "/proc"]
        for target, mount in self._mounts:
            arguments += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), target]
        return arguments

    def _host(self, path: str) -> Iterator[str]:
        host = Path(path)
        if host.is_symlink():
            yield from ("--symlink", str(host.readlink()), path)
        elif path in self._opened and host.is_dir():
            yield from ("--dir", path)
            for name in _names(path):
                below = posixpath.join(path, name)
                if path not in self._homes or not name.startswith(".") or self._holds_tools(below):
                    yield from self._host(below)
        elif host.is_dir() or (host.is_file() and path.count("/") > 1):
            yield from ("--ro-bind-try", path, path)

    def _holds_tools(self, path: str) -> bool:
        return any(folder == path or folder.startswith(path + "/") for folder in self._shown)

    def _resolver(self) -> list[str]:
        """The host's resolv.conf is often a link into /run, which is the container's own."""
        real = os.path.realpath("/etc/resolv.conf")
        return ["--ro-bind-try", real, real] if real.startswith("/run/") else []

    def _mounted(self, path: str) -> Path | None:
        """The host's name of a path inside a volume; None outside of all."""
        for target, mount in reversed(self._mounts):
            if path == target or path.startswith(target + "/"):
                return mount.source / path[len(target) :].lstrip("/")
        return None

    def host_path(self, path: str) -> Path:
        """Where a path of the container lies on the host."""
        plain = posixpath.normpath("/" + path.lstrip("/"))
        mounted = self._mounted(plain)
        if mounted is not None:
            return mounted
        own = self._root / plain.lstrip("/")
        if plain.split("/")[1] in _OWN or (os.path.lexists(own) and not own.is_dir()):
            return own
        return Path(plain)

    def find_executable(self, name: str, search: str, workdir: str) -> None:
        """Find the command as the runtime does; `StartError` in runc's words (recording command-not-found)."""
        shown = json.dumps(name)
        if "/" in name:
            path = posixpath.join(workdir, name)
            if path.startswith(_SYSTEM):
                return
            host = self.host_path(path)
            if not os.path.lexists(host) or self._is_missing(path):
                raise StartError(f"exec: {shown}: stat {name}: no such file or directory")
            if host.is_dir():
                raise StartError(f"exec: {shown}: is a directory")
            if not os.access(host, os.X_OK) and not host.is_symlink():
                raise StartError(f"exec: {shown}: permission denied")
            return
        for folder in search.split(":"):
            path = posixpath.join(folder or ".", name)
            host = self.host_path(path)
            if self._is_missing(path):
                continue
            if host.is_file() and os.access(host, os.X_OK):
                return
        raise StartError(f"exec: {shown}: executable file not found in $PATH")

    def _is_missing(self, path: str) -> bool:
        """Whether a program of the host is one that the image does not have."""
        links = self._rebuilt.get(os.path.realpath(posixpath.dirname(path)))
        return links is not None and not os.path.lexists(links / posixpath.basename(path))


def _behind(folder: str) -> str:
    """Where the host's own folder of programs is bound in an image without some of them."""
    return f"{_BEHIND}/{folder.strip('/').replace('/', '-')}"


def _parents(path: str) -> Iterator[str]:
    parts = path.strip("/").split("/")
    return ("/" + "/".join(parts[:depth]) for depth in range(1, len(parts)))


def _names(folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(folder).iterdir())
    except OSError:  # root's home, for an ordinary user
        return []


def _tool_folders() -> set[str]:
    """Folders that hold the tools of the image: the host's PATH, and this Python."""
    folders = {*os.environ.get("PATH", "").split(":"), sys.prefix, sys.base_prefix}
    return {os.path.realpath(folder) for folder in folders if folder.startswith("/")} | {
        folder for folder in folders if folder.startswith("/")
    }


def _mount_error(mount: Mount, root: Path, _place: str) -> StartError:
    return StartError(
        f'error during container init: error mounting "{mount.source}" to rootfs at "{mount.target}": '
        f"open o_path procfd: open {root}{mount.target}: not a directory"
    )


def _mkdir_error(workdir: str, error: OSError) -> str:
    return f"error during container init: mkdir {workdir}: {os.strerror(error.errno or 0).lower()}"
