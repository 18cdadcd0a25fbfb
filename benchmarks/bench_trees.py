"""Walks, packs, unpacks, copies, stores and restores a tree of 10,000 files and 60 MiB, compared with GNU tar.

    python benchmarks/bench_trees.py [FOLDER]

FOLDER (by default in the system's temporary folder) selects the disk. Prints wall and CPU seconds, medians of `ROUNDS`,
and the peak memory above that before the first walk.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from senro.adapters.fs import FolderContentStore, FolderTrees
from senro.ports.trees import Packed

FILES = 10_000
BYTES = 60 << 20
ROUNDS = 3
MEMORY_LIMIT = 40 << 20  # bytes above an idle process


def make(folder: Path) -> None:
    """Creates small and large files, Unicode names, long paths, links, empty files and folders, executables."""
    randomness = random.Random(1)
    large = [4 << 20, 8 << 20]
    small = (BYTES - sum(large)) // (FILES - len(large))
    for number in range(FILES):
        parent = folder / f"d{number % 100}" / ("é" * 100 if number % 50 == 0 else "src")
        parent.mkdir(parents=True, exist_ok=True)
        name = "n" * 200 + str(number) if number % 100 == 0 else f"f{number}"
        size = large[number] if number < len(large) else 0 if number % 97 == 0 else randomness.randrange(2 * small)
        (parent / name).write_bytes(randomness.randbytes(size))
        if number % 20 == 0:
            (parent / name).chmod(0o755)
        if number % 200 == 0:
            (parent / f"link{number}").symlink_to(name)
            (parent / f"empty{number}").mkdir()


class Table:
    """Measures, and prints a line for each operation."""

    def __init__(self) -> None:
        self._before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{'':24}{'wall s':>9}{'CPU s':>9}{'memory MiB':>12}")

    @property
    def memory(self) -> int:
        """Returns the peak memory above the start, in bytes."""
        unit = 1 if sys.platform == "darwin" else 1024
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._before) * unit

    async def measure(self, what: str, run: Callable[[int], Awaitable[object]]) -> None:
        """Runs the operation `ROUNDS` times, each with its number."""
        walls, cpus = [], []
        for number in range(ROUNDS):
            wall, cpu = time.perf_counter(), _cpu()
            await run(number)
            walls.append(time.perf_counter() - wall)
            cpus.append(_cpu() - cpu)
        print(f"{what:24}{statistics.median(walls):9.2f}{statistics.median(cpus):9.2f}{self.memory / 2**20:12.1f}")


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


async def measure_all(top: Path) -> None:
    """Measures all operations below `top`."""
    source = str(top / "source")
    port, store = FolderTrees(), FolderContentStore(str(top / "store"))
    table = Table()
    tree = await port.walk(source)
    archive = top / "archive.tar"

    async def pack(_: int) -> None:
        async with port.pack([Packed(0, source, tree)]) as opened, await anyio.open_file(archive, "wb") as file:
            while piece := await opened.read():
                await file.write(piece)
            assert archive.stat().st_size == opened.length

    async def unpack(_: int) -> None:
        # 32 KiB, the maximum that an apiserver sends in a message.
        async with port.unpack({0: str(top / "unpacked")}) as opened, await anyio.open_file(archive, "rb") as file:
            while piece := await file.read(32 * 1024):
                await opened.write(piece)
            assert (await opened.finish())[0].digest == tree.digest
            await opened.replace()

    async def gnu(*words: str) -> None:
        await anyio.to_thread.run_sync(lambda: subprocess.run(words, check=True))

    async def gnu_unpack(number: int) -> None:
        (top / f"gnu{number}").mkdir()
        await gnu("tar", "-x", "-f", str(archive), "-C", str(top / f"gnu{number}"))

    await table.measure("walk", lambda _: port.walk(source))
    await table.measure("pack", pack)
    await table.measure("unpack and replace", unpack)
    await table.measure("copy", lambda number: port.copy(tree, source, str(top / f"copy{number}")))
    await table.measure("put, all new", lambda number: FolderContentStore(f"{top}/new{number}").put(tree, source))
    await store.put(tree, source)
    await table.measure("put, all held", lambda _: store.put(tree, source))
    await table.measure("restore", lambda _: store.restore(tree.digest, str(top / "restored")))
    assert (await port.walk(str(top / "restored"))).digest == tree.digest
    await table.measure("GNU tar -c", lambda _: gnu("tar", "-c", "-f", str(top / "gnu.tar"), "-C", source, "."))
    await table.measure("GNU tar -x", gnu_unpack)
    print(f"{tree.files} files, {tree.size} bytes, {len(tree.entries)} entries, {tree.digest}")
    assert table.memory < MEMORY_LIMIT, f"{table.memory} bytes are more than {MEMORY_LIMIT}"


def main() -> None:
    """Creates the tree, measures, and removes everything."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as top:
        # A separate process creates the tree, so that its memory does not count.
        command = "import sys; from pathlib import Path; from benchmarks.trees import make; make(Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", command, f"{top}/source"], check=True, cwd=Path(__file__).parent.parent)
        anyio.run(measure_all, Path(top))


if __name__ == "__main__":
    main()
