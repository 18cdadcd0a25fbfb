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


def environment(container: Object, hostname: str, user: int, find: Find) -> dict[str, str]:
    """The whole environment of one container, in the order in which the kubelet makes it.

    A value may refer to the variables before it; a value from a Secret is not expanded. Raises `ConfigError` for a
    Secret or a key that does not exist, and for a source that the embedded cluster does not serve.
    """
    if container.get("envFrom"):
        raise ConfigError("the embedded cluster serves no envFrom")
    variables = dict(_SERVICE)
    for entry in container.get("env") or []:
        name = entry["name"]
        source = entry.get("valueFrom")
        found = _secret_value(name, source, find) if source else expand(entry.get("value", ""), variables)
        if found is not None:
            variables[name] = found
    return {"PATH": image_path(), "HOSTNAME": hostname, "HOME": "/root" if user == 0 else "/", **variables}


def _secret_value(variable: str, source: Object, find: Find) -> str | None:
    """The value of a `secretKeyRef`; None if it is optional and absent."""
    if "secretKeyRef" not in source:
        raise ConfigError(f"the embedded cluster cannot fill {variable} from {', '.join(source)}")
    reference = source["secretKeyRef"]
    name, key = reference.get("name", ""), reference["key"]
    secret = find(SECRETS, name)
    value = ((secret or {}).get("data") or {}).get(key)
    if value is not None:
        return base64.b64decode(value).decode("utf-8", "surrogateescape")
    if reference.get("optional"):
        return None
    if secret is None:
        raise ConfigError(f'secret "{name}" not found')
    raise ConfigError(f"couldn't find key {key} in Secret {secret['metadata']['namespace']}/{name}")


def image_path() -> str:
    """The image's PATH: the usual folders, then whatever else the host finds its tools in."""
    standard = _STANDARD_PATH.split(":")
    host = [folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/")]
    return ":".join(dict.fromkeys(standard + host))
