"""A TCP relay to a port of this machine that passes so many bytes a second each way. Prints its own port.

    python benchmarks/limited_link.py PORT BYTES_A_SECOND

Its buffers are small, as those of a slow link are: what a client has written, the link has nearly carried.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time

PIECE = 16 * 1024
BUFFER = 64 * 1024
"""Bytes that each socket holds: the kernel's own choice would hide most of a short transfer."""


class Rate:
    """One direction of the link, shared by all connections."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = 0.0

    async def carry(self, size: int) -> None:
        """Return when the link has carried so many bytes more."""
        now = time.monotonic()
        self._free_at = max(self._free_at, now - 0.005) + size / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


async def relay(source: socket.socket, target: socket.socket, rate: Rate) -> None:
    """Bytes from one to the other until there are none, or either is gone."""
    loop = asyncio.get_running_loop()
    try:
        while data := await loop.sock_recv(source, PIECE):
            await rate.carry(len(data))
            await loop.sock_sendall(target, data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


async def connected(client: socket.socket, port: int, up: Rate, down: Rate) -> None:
    """Carry one connection."""
    loop = asyncio.get_running_loop()
    with client, small(socket.socket()) as server:
        await loop.sock_connect(server, ("127.0.0.1", port))
        await asyncio.gather(relay(client, server, up), relay(server, client, down))


def small(made: socket.socket) -> socket.socket:
    """The socket with small buffers."""
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


async def main(port: int, rate: int) -> None:
    """Listen until killed."""
    up, down = Rate(rate), Rate(rate)
    loop = asyncio.get_running_loop()
    tasks = set()
    with small(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        print(listening.getsockname()[1], flush=True)
        while True:
            client, _ = await loop.sock_accept(listening)
            task = asyncio.create_task(connected(small(client), port, up, down))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
