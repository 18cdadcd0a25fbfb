"""A TCP relay to a local port with a limited rate in each direction. Prints its own port.

    python benchmarks/limited_link.py PORT BYTES_A_SECOND

Its buffers are small, like those of a slow link, so that bytes that a client has written are almost transferred.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time

PIECE = 16 * 1024
BUFFER = 64 * 1024
"""Size of each socket's buffer in bytes. The kernel's default would hide most of a short transfer."""


class Rate:
    """One direction of the link, shared by all connections."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = 0.0

    async def pass_bytes(self, size: int) -> None:
        """Returns when the link has passed `size` more bytes."""
        now = time.monotonic()
        self._free_at = max(self._free_at, now - 0.005) + size / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


async def relay(source: socket.socket, target: socket.socket, rate: Rate) -> None:
    """Copies bytes until the source ends, or either end is gone."""
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.sock_recv(source, PIECE):
            await rate.pass_bytes(len(data))
            await loop.sock_sendall(target, data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


async def relay_connection(client: socket.socket, port: int, up: Rate, down: Rate) -> None:
    """Relays one connection."""
    loop = asyncio.get_running_loop()
    with client, shrink_buffers(socket.socket()) as server:
        await loop.sock_connect(server, ("127.0.0.1", port))
        await asyncio.gather(relay(client, server, up), relay(server, client, down))


def shrink_buffers(made: socket.socket) -> socket.socket:
    """Sets the buffers of the socket to BUFFER and returns it."""
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


async def main(port: int, rate: int) -> None:
    """Listens until it is killed."""
    up, down = Rate(rate), Rate(rate)
    loop = asyncio.get_running_loop()
    tasks = set()
    with shrink_buffers(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        print(listening.getsockname()[1], flush=True)
        while True:
            client, _ = await loop.sock_accept(listening)
            task = asyncio.create_task(relay_connection(shrink_buffers(client), port, up, down))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
