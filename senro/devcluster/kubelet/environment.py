"""A container's environment: never the coordinator's (docs/design/api-rules.md#which-variables-are-visible)."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.resources import CONFIG_MAPS
from senro.devcluster.apiserver.status import SECRETS
from senro.devcluster.expansion import expand

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object

    Find = Callable[[Resource, str], Object | None]
    """Gives an object of the pod's namespace by its resource and name, or None."""

_STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SERVICE = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
    "KUBERNETES_SERVICE_PORT_HTTPS": "443",
    "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
    "KUBERNETES_PORT_443_TCP_PORT": "443",
    "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
}


class ConfigError(Exception):
    """CreateContainerConfigError: a reference that leads nowhere (recording create-container-config-error).

    Or a sub-path that leads out of its volume.
    """


class Sources:
    """Where the values of a pod's variables may come from: its namespace's Secrets and ConfigMaps, its own fields."""

    def __init__(self, namespace: str, find: Find, field: Callable[[str], str]) -> None:
        self._namespace = namespace
        self._find = find
        self._field = field

    def all_of(self, source: Object) -> dict[str, str]:
        """What an entry of `envFrom` brings."""
        prefix = source.get("prefix", "")
        for key, resource in _REFERRED.items():
            if f"{key}Ref" in source:
                return {prefix + name: value for name, value in self._data(resource, source[f"{key}Ref"]).items()}
        return {}

    def value(self, name: str, source: Object) -> str | None:
        """What a `valueFrom` stands for; None where it is optional and not there."""
        if "fieldRef" in source:
            return self._field(source["fieldRef"]["fieldPath"])
        for kind, resource in _REFERRED.items():
            if f"{kind}KeyRef" not in source:
                continue
            reference = source[f"{kind}KeyRef"]
            key = reference["key"]
            data = self._data(resource, reference)
            if key in data:
                return data[key]
            if not reference.get("optional"):
                where = f"{resource.kind} {self._namespace}/{reference['name']}"
                raise ConfigError(f"couldn't find key {key} in {where}")
            return None
        raise ConfigError(f"the embedded cluster cannot fill {name} from {', '.join(source)}")

    def _data(self, resource: Resource, reference: Object) -> dict[str, str]:
        name = reference.get("name", "")
        found = self._find(resource, name)
        if found is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'{resource.kind.lower()} "{name}" not found')
        data: dict[str, str] = found.get("data") or {}
        return data if resource == CONFIG_MAPS else {key: _decode(value) for key, value in data.items()}


_REFERRED = {"secret": SECRETS, "configMap": CONFIG_MAPS}
"""How a reference begins, and what it is to."""


def environment(container: Object, hostname: str, user: int, sources: Sources) -> dict[str, str]:
    """The whole environment of one container, in the order in which the kubelet makes it.

    A value may refer to what comes before it; what comes from a Secret is taken as it is. `ConfigError` where a
    reference leads nowhere.
    """
    variables = dict(_SERVICE)
    for source in container.get("envFrom") or []:
        variables |= sources.all_of(source)
    for entry in container.get("env") or []:
        name = entry["name"]
        found = (
            sources.value(name, entry["valueFrom"])
            if entry.get("valueFrom")
            else expand(entry.get("value", ""), variables)
        )
        if found is not None:
            variables[name] = found
    return {"PATH": image_path(), "HOSTNAME": hostname, "HOME": "/root" if user == 0 else "/", **variables}


def image_path() -> str:
    """The image's PATH: the usual folders, then whatever else the host finds its tools in."""
    standard = _STANDARD_PATH.split(":")
    host = [folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/")]
    return ":".join(dict.fromkeys(standard + host))


def _decode(value: str) -> str:
    return base64.b64decode(value).decode("utf-8", "surrogateescape")
