"""A pod's volumes as folders of the host."""

from __future__ import annotations

import base64
import contextlib
import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.resources import CONFIG_MAPS
from senro.devcluster.apiserver.status import SECRETS
from senro.devcluster.containers.runtime import Mount, system_words
from senro.devcluster.kubelet.environment import ConfigError
from senro.devcluster.kubelet.pod_resources import whole

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


_PLUGINS = {"emptyDir": "empty-dir", "secret": "secret", "configMap": "configmap"}


def _set_up(path: Path, volume: Object, find: Find, claim_folder: Callable[[str], Path | None]) -> Path:
    if "secret" in volume:
        files = _files(volume, find(SECRETS, volume["secret"]["secretName"]))
        return _written(path, volume, volume["secret"], files)
    if "configMap" in volume:
        files = _files(volume, find(CONFIG_MAPS, volume["configMap"]["name"]))
        return _written(path, volume, volume["configMap"], files)
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
    """What a Secret or a ConfigMap holds, by its keys; `NotYetError` where it is not there and has to be."""
    source: Object = volume.get("secret") or volume["configMap"]
    if found is None:
        if source.get("optional"):
            return {}
        kind, name = ("secret", source["secretName"]) if "secret" in volume else ("configmap", source["name"])
        raise NotYetError(volume["name"], f'{kind} "{name}" not found')
    data: dict[str, str] = found.get("data") or {}
    if "secret" in volume:
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary: dict[str, str] = found.get("binaryData") or {}
    return {
        **{key: value.encode() for key, value in data.items()},
        **{key: base64.b64decode(value) for key, value in binary.items()},
    }


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
            words = (
                "references non-existent secret" if "secret" in volume else "configmap references non-existent config"
            )
            raise NotYetError(volume["name"], f"{words} key: {item['key']}")
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
        if "secret" in volume
        or "configMap" in volume
        or (volume.get("persistentVolumeClaim") or {}).get("readOnly", False)
    )


def mounts(
    container: Object,
    volumes: Mapping[str, Path],
    read_only: frozenset[str],
    expand: Callable[[str], str],
    shared: Path,
) -> tuple[Mount, ...]:
    """A container's volume mounts, sub-paths made where they are missing; those of `read_only` volumes are that.

    `shared` is the pod's own folder that mapped containers move volumes to. `ConfigError` where a sub-path leads out of
    its volume or cannot be made, in the kubelet's words.
    """
    found: list[Mount] = []
    for mount in container.get("volumeMounts") or []:
        source = volumes[mount["name"]]
        below = mount.get("subPath") or expand(mount.get("subPathExpr") or "")
        if posixpath.isabs(below):
            raise ConfigError(f"error SubPath `{below}` must not be an absolute path")
        if ".." in below.split("/"):
            raise ConfigError(f"unable to provision SubPath `{below}`: must not contain '..'")
        if below:
            try:
                source = _below(source, below, shared)
            # Through a file, too long for a name, with a NUL, out by a link: a kubelet says the same of them all.
            except (OSError, ValueError) as error:
                words = (
                    f'failed to prepare subPath for volumeMount "{mount["name"]}" of container "{container["name"]}"'
                )
                raise ConfigError(words) from error
        found.append(
            Mount(source, mount["mountPath"], read_only=mount["name"] in read_only or bool(mount.get("readOnly")))
        )
    return tuple(found)


def _below(volume: Path, path: str, shared: Path) -> Path:
    """A sub-path with its links followed, made where it is missing; ValueError where a link leads out of the volume."""
    found = Path(os.path.realpath(volume / path))
    if not any(found.is_relative_to(os.path.realpath(folder)) for folder in (volume, shared)):
        raise ValueError("a link leads out of the volume")
    if not found.exists():
        found.mkdir(parents=True)
        found.chmod(0o777)
    return found
