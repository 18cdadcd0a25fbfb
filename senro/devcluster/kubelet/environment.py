"""A container's environment: never the coordinator's (docs/design/api-rules.md#which-variables-are-visible)."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

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
    """CreateContainerConfigError: a reference that leads nowhere (recording create-container-config-error)."""


class Secrets:
    """The Secrets of a pod's namespace, as sources of its variables."""

    def __init__(self, namespace: str, find: Find) -> None:
        self._namespace = namespace
        self._find = find

    def all_of(self, source: Object) -> dict[str, str]:
        """The variables of an entry of `envFrom`."""
        if "secretRef" not in source:
            raise ConfigError("the embedded cluster fills envFrom from Secrets only")
        return {source.get("prefix", "") + name: value for name, value in self._data(source["secretRef"]).items()}

    def value(self, name: str, source: Object) -> str | None:
        """The value of a `valueFrom`; None if it is optional and absent."""
        if "secretKeyRef" not in source:
            raise ConfigError(f"the embedded cluster cannot fill {name} from {', '.join(source)}")
        reference = source["secretKeyRef"]
        data = self._data(reference)
        if reference["key"] not in data and not reference.get("optional"):
            where = f"Secret {self._namespace}/{reference['name']}"
            raise ConfigError(f"couldn't find key {reference['key']} in {where}")
        return data.get(reference["key"])

    def _data(self, reference: Object) -> dict[str, str]:
        name = reference.get("name", "")
        found = self._find(SECRETS, name)
        if found is None and not reference.get("optional"):
            raise ConfigError(f'secret "{name}" not found')
        return {key: _decode(value) for key, value in ((found or {}).get("data") or {}).items()}


def environment(container: Object, hostname: str, user: int, secrets: Secrets) -> dict[str, str]:
    """The whole environment of one container, in the order in which the kubelet makes it.

    A value may refer to what comes before it; what comes from a Secret is taken as it is. `ConfigError` where a
    reference leads nowhere.
    """
    variables = dict(_SERVICE)
    for source in container.get("envFrom") or []:
        variables |= secrets.all_of(source)
    for entry in container.get("env") or []:
        name = entry["name"]
        found = (
            secrets.value(name, entry["valueFrom"])
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
