"""The start-up time of `import senro` and `senro --help`, above that of the interpreter.

    python benchmarks/bench_start.py

Each is started twenty times, in turns, and the median counts. It fails above 60 ms for the import, which every pod
does, or 150 ms for the help.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 20
BARE = ("bare", [sys.executable, "-c", ""], 0.0)
STARTS = [
    ("import", [sys.executable, "-c", "import senro"], 0.060),
    ("help", [sys.executable, "-m", "senro", "--help"], 0.150),
]


def seconds(command: list[str]) -> float:
    """Returns the seconds from the start of the process to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Measures and prints, and fails above a limit."""
    times_by_name: dict[str, list[float]] = {}
    for _ in range(ROUNDS + 1):
        for name, command, _limit in (BARE, *STARTS):
            times_by_name.setdefault(name, []).append(seconds(command))
    # The first round fills the caches.
    medians = {name: statistics.median(times[1:]) for name, times in times_by_name.items()}
    print(f"{'bare':8} {medians['bare'] * 1000:7.1f} ms")
    late = []
    for name, _command, limit in STARTS:
        above = medians[name] - medians["bare"]
        print(f"{name:8} {above * 1000:7.1f} ms above it, at most {limit * 1000:.0f}")
        if above > limit:
            late.append(name)
    if late:
        sys.exit(f"too slow: {', '.join(late)}")


if __name__ == "__main__":
    main()
