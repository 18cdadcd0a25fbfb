"""`senro devcluster`: the embedded cluster in a terminal of its own."""

from __future__ import annotations

import shlex

import click

from senro.devcluster import IMAGE, DevCluster, serve

NAMESPACES = ("ci", "default")


def serve_devcluster(port: int) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code."""

    def announce(cluster: DevCluster) -> None:
        for name, value in cluster.environment().items():
            click.echo(f"export {name}={shlex.quote(value)}")
        click.echo(
            f"# An embedded Kubernetes cluster ({cluster.mode}) with the namespaces {' and '.join(NAMESPACES)}.\n"
            f"# Its image: {IMAGE}\n"
            "# Its pods are processes of this machine; it keeps nothing and is no place for untrusted commands.\n"
            "# Paste the lines above in another terminal. Ctrl-C stops it.",
        )

    try:
        serve(port, announce, namespaces=NAMESPACES)
    except OSError as error:
        click.echo(f"senro: port {port} cannot be served: {error.strerror}", err=True)
        return 2
    return 0
