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


def environment(
    container: Object,
    hostname: str,
    user: int,
    find_secret: Callable[[str], Object | None],
    field: Callable[[str], str],
) -> dict[str, str]:
    """The whole environment of one container, in the order in which the kubelet makes it.

    A value may refer to what comes before it; what comes from a Secret is taken as it is.
    """
    variables = dict(_SERVICE)
    for source in container.get("envFrom") or []:
        reference = source.get("secretRef")
        if reference is not None:
            data = _secret_data(reference, find_secret)
            prefix = source.get("prefix", "")
            variables |= {prefix + key: _decode(value) for key, value in data.items()}
    for entry in container.get("env") or []:
        name, value = entry["name"], entry.get("value", "")
        source = entry.get("valueFrom")
        if source is None:
            variables[name] = expand(value, variables)
        elif "fieldRef" in source:
            variables[name] = field(source["fieldRef"]["fieldPath"])
        elif "secretKeyRef" in source:
            reference = source["secretKeyRef"]
            data = _secret_data(reference, find_secret)
            if reference["key"] in data:
                variables[name] = _decode(data[reference["key"]])
            elif not reference.get("optional"):
                raise ConfigError(f"couldn't find key {reference['key']} in Secret {reference['name']}")
        else:
            raise ConfigError(f"the embedded cluster cannot fill {name} from {', '.join(source)}")
    return {"PATH": image_path(), "HOSTNAME": hostname, "HOME": "/root" if user == 0 else "/", **variables}


def image_path() -> str:
    """The image's PATH: the usual folders, then whatever else the host finds its tools in."""
    standard = _STANDARD_PATH.split(":")
    host = [folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/")]
    return ":".join(dict.fromkeys(standard + host))


def _secret_data(reference: Object, find_secret: Callable[[str], Object | None]) -> Object:
    secret = find_secret(reference["name"])
    if secret is None:
        if reference.get("optional"):
            return {}
        raise ConfigError(f'secret "{reference["name"]}" not found')
    data: Object = secret.get("data") or {}
    return data


def _decode(value: str) -> str:
    return base64.b64decode(value).decode("utf-8", "surrogateescape")
