"""A container's environment: never the coordinator's (facts/api-rules.md section 1)."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from senro.devcluster.expansion import expand

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.objects import Object

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


class Sources:
    """Where the values of a pod's variables may come from: Secrets of its namespace, and fields of the pod itself."""

    def __init__(
        self, namespace: str, find_secret: Callable[[str], Object | None], field: Callable[[str], str]
    ) -> None:
        self._namespace = namespace
        self._find_secret = find_secret
        self._field = field

    def all_of(self, source: Object) -> dict[str, str]:
        """What an entry of `envFrom` brings."""
        prefix = source.get("prefix", "")
        if "secretRef" in source:
            data = self._secret_data(source["secretRef"])
            return {prefix + key: _decode(value) for key, value in data.items()}
        if "configMapRef" in source:
            _require_no_config_map(source["configMapRef"])
        return {}

    def value(self, name: str, source: Object) -> str | None:
        """What a `valueFrom` stands for; None where it is optional and not there."""
        if "fieldRef" in source:
            return self._field(source["fieldRef"]["fieldPath"])
        if "secretKeyRef" in source:
            reference = source["secretKeyRef"]
            data = self._secret_data(reference)
            if reference["key"] in data:
                return _decode(data[reference["key"]])
            if not reference.get("optional"):
                where = f"{self._namespace}/{reference['name']}"
                raise ConfigError(f"couldn't find key {reference['key']} in Secret {where}")
            return None
        if "configMapKeyRef" in source:
            _require_no_config_map(source["configMapKeyRef"])
            return None
        raise ConfigError(f"the embedded cluster cannot fill {name} from {', '.join(source)}")

    def _secret_data(self, reference: Object) -> Object:
        secret = self._find_secret(reference["name"])
        if secret is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'secret "{reference["name"]}" not found')
        data: Object = secret.get("data") or {}
        return data


def _require_no_config_map(reference: Object) -> None:
    """The embedded cluster keeps no ConfigMaps: none is ever found."""
    if not reference.get("optional"):
        raise ConfigError(f'configmap "{reference["name"]}" not found')


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
