"""What a child process may know of the coordinator's environment."""

from __future__ import annotations

from collections.abc import Mapping

WITHHELD = ("SENRO_K8S_", "SENRO_SECRET_")
"""Prefixes of variables that hold the cluster's credentials and the values of secrets."""


def child_environment(own: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The environment `own` with `added` over it and without any variable that starts with a `WITHHELD` prefix."""
    return {name: value for name, value in {**own, **added}.items() if not name.startswith(WITHHELD)}
