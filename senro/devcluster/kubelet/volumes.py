"""A pod's volumes as folders of the host."""

from __future__ import annotations

import base64
import contextlib
import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.status import SECRETS
from senro.devcluster.containers.runtime import Mount, system_words
from senro.devcluster.kubelet.environment import ConfigError
from senro.devcluster.kubelet.pod_resources import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from senro.devcluster.kubelet.environment import Find
    from senro.devcluster.objects import Object


class NotYetError(Exception):
    """A volume that cannot be set up now; the kubelet tries again (recording missing-secret-volume)."""

    def __init__(self, volume: str, why: str) -> None:
        super().__init__(why)
        self.volume = volume


def set_up(
    folder: Path, volumes: list[Object], find: Find, claim_folder: Callable[[str], Path | None]
) -> dict[str, Path]:
    """Make every volume under `folder`; returns their paths by name. `NotYetError` where what it holds is not there.

    `claim_folder` gives the folder that a claim is bound to.
    """
    found: dict[str, Path] = {}
    for volume in volumes:
        try:
            found[volume["name"]] = _set_up(folder / _place(volume), volume, find, claim_folder)
        # A file where an item needs a folder, a name that is too long, a NUL: the kubelet tries for ever.
        except (OSError, ValueError) as error:
            raise NotYetError(volume["name"], system_words(error)) from error
    return found


def _place(volume: Object) -> str:
    """Where a kubelet keeps a volume below a pod's: by its plugin and its name."""
    plugin = next((name for kind, name in _PLUGINS.items() if kind in volume), "none")
    return f"kubernetes.io~{plugin}/{volume['name']}"


_PLUGINS = {"emptyDir": "empty-dir", "secret": "secret"}


def _set_up(path: Path, volume: Object, find: Find, claim_folder: Callable[[str], Path | None]) -> Path:
    if "secret" in volume:
        files = _files(volume, find(SECRETS, volume["secret"]["secretName"]))
        return _written(path, volume, volume["secret"], files)
    if "emptyDir" in volume:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return path
    if "persistentVolumeClaim" in volume:
        name = volume["persistentVolumeClaim"]["claimName"]
        claimed = claim_folder(name)
        if claimed is None:
            raise NotYetError(volume["name"], f'persistentvolumeclaim "{name}" not found')
        return claimed
    kind = next((key for key in volume if key != "name"), "nothing")
    raise NotYetError(volume["name"], f"volumes of kind {kind} are not served by the embedded cluster")


def _files(volume: Object, found: Object | None) -> dict[str, bytes]:
    """What a Secret holds, by its keys; raises `NotYetError` if it does not exist and is not optional."""
    if found is None and not volume["secret"].get("optional"):
        raise NotYetError(volume["name"], f'secret "{volume["secret"]["secretName"]}" not found')
    return {key: base64.b64decode(value) for key, value in ((found or {}).get("data") or {}).items()}


def over_limit(volumes: list[Object], paths: Mapping[str, Path]) -> tuple[str, str] | None:
    """The first emptyDir that holds more than its sizeLimit, and that limit as the pod has it; None where none does."""
    for volume in volumes:
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        allowed = whole_number(limit)
        if allowed and volume["name"] in paths and usage(paths[volume["name"]]) > allowed:
            return volume["name"], str(limit)
    return None


def usage(folder: Path) -> int:
    """Bytes on the disk below a folder, as du counts them."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            # A file may go while it is being looked at.
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - many files
    return total


def _written(folder: Path, volume: Object, source: Object, files: Mapping[str, bytes]) -> Path:
    """Write a volume's files with the modes that it wants; which keys, and where to, its items may say."""
    folder.mkdir(parents=True, exist_ok=True)
    default = source.get("defaultMode")
    mode = 0o644 if default is None else int(default)
    wanted = source.get("items") or [{"key": key, "path": key} for key in files]
    for item in wanted:
        if item["key"] not in files:
            if source.get("optional"):
                continue
            raise NotYetError(volume["name"], f"references non-existent secret key: {item['key']}")
        file = folder / posixpath.normpath(item["path"])
        file.parent.mkdir(parents=True, exist_ok=True)
        # Private before there is anything in it; a second set-up finds it read-only and makes it anew.
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(files[item["key"]])
        file.chmod(mode if item.get("mode") is None else int(item["mode"]))
    folder.chmod(0o755)
    return folder


def read_only_volumes(spec: Object) -> frozenset[str]:
    """The volumes that no container may write to, whatever its mount says: what is not the pod's own to change."""
    return frozenset(
        volume["name"]
        for volume in spec.get("volumes") or []
        if "secret" in volume or (volume.get("persistentVolumeClaim") or {}).get("readOnly", False)
    )


def mounts(container: Object, volumes: Mapping[str, Path], read_only: frozenset[str]) -> tuple[Mount, ...]:
    """A container's volume mounts; those of `read_only` volumes are read-only."""
    found: list[Mount] = []
    for mount in container.get("volumeMounts") or []:
        if mount.get("subPath") or mount.get("subPathExpr"):
            raise ConfigError("the embedded cluster mounts whole volumes, no subPath")
        shut = mount["name"] in read_only or bool(mount.get("readOnly"))
        found.append(Mount(volumes[mount["name"]], mount["mountPath"], read_only=shut))
    return tuple(found)
