"""Short names for the JSON that everything here is made of."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
"""A Kubernetes object, or a part of one, as decoded from JSON."""

NODE_NAME = "senro-node"
"""The one node of the cluster, named as in the recordings."""


def key_of(document: Object) -> tuple[str, str]:
    """An object's namespace ("" where it has none) and name."""
    meta = document["metadata"]
    return str(meta.get("namespace", "")), str(meta["name"])
