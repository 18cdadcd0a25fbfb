"""A pod's volumes as folders of the host."""

from __future__ import annotations

import base64
import contextlib
import os
import posixpath
from typing import TYPE_CHECKING

from senro.devcluster.containers.runtime import Mount
from senro.devcluster.kubelet.amounts import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from senro.devcluster.objects import Object


class NotYetError(Exception):
    """A volume that cannot be set up now; the kubelet tries again (recording missing-secret-volume)."""

    def __init__(self, volume: str, why: str) -> None:
        super().__init__(why)
        self.volume = volume


def set_up(
    folder: Path,
    volumes: list[Object],
    find_secret: Callable[[str], Object | None],
    claim_folder: Callable[[str], Path | None],
) -> dict[str, Path]:
    """Make every volume under `folder`; returns their paths by name. `NotYetError` where a Secret is missing.

    `claim_folder` gives the folder that a claim is bound to.
    """
    return {volume["name"]: _set_up(folder / volume["name"], volume, find_secret, claim_folder) for volume in volumes}


def _set_up(
    path: Path,
    volume: Object,
    find_secret: Callable[[str], Object | None],
    claim_folder: Callable[[str], Path | None],
) -> Path:
    if "secret" in volume:
        source = volume["secret"]
        secret = find_secret(source["secretName"])
        if secret is None and not source.get("optional"):
            raise NotYetError(volume["name"], f'secret "{source["secretName"]}" not found')
        path.mkdir(parents=True, exist_ok=True)
        _write_secret(path, volume, (secret or {}).get("data") or {})
        path.chmod(0o755)
        return path
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
    if "configMap" in volume and not volume["configMap"].get("optional"):
        # The embedded cluster keeps no ConfigMaps: none is ever found.
        raise NotYetError(volume["name"], f'configmap "{volume["configMap"]["name"]}" not found')
    if "configMap" in volume:
        path.mkdir(parents=True, exist_ok=True)
        return path
    kind = next((key for key in volume if key != "name"), "nothing")
    raise NotYetError(volume["name"], f"volumes of kind {kind} are not served by the embedded cluster")


def over_limit(volumes: list[Object], paths: Mapping[str, Path]) -> tuple[str, str] | None:
    """The first emptyDir that holds more than its sizeLimit, and that limit as the pod has it; None where none does."""
    for volume in volumes:
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        allowed = whole(limit)
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


def _write_secret(folder: Path, volume: Object, data: Mapping[str, str]) -> None:
    source = volume["secret"]
    default = source.get("defaultMode")
    mode = 0o644 if default is None else int(default)
    wanted = source.get("items") or [{"key": key, "path": key} for key in data]
    for item in wanted:
        if item["key"] not in data:
            if source.get("optional"):
                continue
            raise NotYetError(volume["name"], f"references non-existent secret key: {item['key']}")
        file = folder / posixpath.normpath(item["path"])
        file.parent.mkdir(parents=True, exist_ok=True)
        # Private before there is anything in it; a second set-up finds it read-only and makes it anew.
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(base64.b64decode(data[item["key"]]))
        file.chmod(mode if item.get("mode") is None else int(item["mode"]))


def mounts(container: Object, volumes: Mapping[str, Path], expand: Callable[[str], str]) -> tuple[Mount, ...]:
    """A container's volume mounts, sub-paths made where they are missing; a Secret's files are never writable."""
    found: list[Mount] = []
    for mount in container.get("volumeMounts") or []:
        source = volumes[mount["name"]]
        below = mount.get("subPath") or expand(mount.get("subPathExpr") or "")
        if below:
            source = source / posixpath.normpath(below)
            if not source.exists():
                source.mkdir(parents=True)
                source.chmod(0o777)
        found.append(Mount(source, mount["mountPath"], read_only=bool(mount.get("readOnly"))))
    return tuple(found)
