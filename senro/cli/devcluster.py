"""`senro devcluster`: serves the embedded cluster."""

from __future__ import annotations

import shlex

import click

from senro.devcluster import IMAGE, DevCluster, serve

NAMESPACES = ("ci", "default")
"""The namespaces of the cluster."""


def serve_devcluster(port: int) -> int:
    """Serves on 127.0.0.1 until SIGINT or SIGTERM, on a free port if `port` is 0. Returns the exit code."""

    def announce(cluster: DevCluster) -> None:
        for name, value in cluster.environment().items():
            click.echo(f"export {name}={shlex.quote(value)}")
        click.echo(
            f"# An embedded Kubernetes cluster ({cluster.mode}) with the namespaces {' and '.join(NAMESPACES)}.\n"
            f"# Its image: {IMAGE}\n"
            "# Its pods are processes of this machine: do not run untrusted commands.\n"
            "# Its state is lost when it stops.\n"
            "# Paste the lines above in another terminal. Ctrl-C stops it.",
        )

    try:
        serve(port, announce, namespaces=NAMESPACES)
    except OSError as error:
        click.echo(f"senro: port {port} cannot be served: {error.strerror}", err=True)
        return 2
    return 0
