"""The benchmark's own client of the embedded cluster."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from benchmarks.bench_devcluster import Connection


def test_a_server_that_hangs_up_in_the_handshake() -> None:
    """An error that says so, and no loop that waits for more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)

        server = threading.Thread(target=hang_up)
        server.start()
        with pytest.raises(ConnectionError, match="within the handshake"):
            Connection(ssl.create_default_context(), *listener.getsockname())
        server.join()
