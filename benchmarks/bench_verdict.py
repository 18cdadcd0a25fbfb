"""How many pods one core decodes and judges per second, compared with parsing the JSON alone.

A coordinator judges each pod that it polls or receives from a watch. The pods are recorded ones of about 5 KB: a
running one, a successful one, and an evicted one, which passes the most rules. The time is CPU time, of the best round.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

from senro.domain.kube.pod import decode_pod
from senro.domain.verdict import Memory, Observation, observe
from tests.lib.verdict.observations import recorded_pod

CALLS, ROUNDS = 500, 60
WANTED = 20_000
"""The expected number per second on one core."""

PODS = (
    ("runs", "log-rotation", "r-log-rotation", "Running"),
    ("ended", "exit-zero", "r-exit-zero", "Succeeded"),
    ("evicted", "evicted-api-trap-zero", "r-evict-api", "Succeeded"),
)


def seconds(call: Callable[[], object]) -> float:
    """Returns the seconds of a call in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = process_time()
        for _ in range(CALLS):
            call()
        best = min(best, (process_time() - began) / CALLS)
    return best


def document(scenario: str, name: str, phase: str) -> bytes:
    """Returns the largest recorded state of the pod in that phase, before the recorder deleted it."""
    pod = recorded_pod(scenario, name)
    states = [
        json.dumps(state, separators=(",", ":")).encode()
        for state in pod.documents[: pod.ours]
        if state and state["status"]["phase"] == phase
    ]
    return max(states, key=len)


def main() -> None:
    """Prints a line for each pod."""
    slowest = float("inf")
    for title, scenario, name, phase in PODS:
        data = document(scenario, name, phase)
        memory = Memory.start(uid=decode_pod(data).uid)

        def judge(data: bytes = data, memory: Memory = memory) -> object:
            return observe(memory, Observation(pod=decode_pod(data), at=1.0))

        reading, decoding, both = (
            seconds(lambda data=data: json.loads(data)),  # type: ignore[misc] # a default binds the loop's value
            seconds(lambda data=data: decode_pod(data)),  # type: ignore[misc] # as above
            seconds(judge),
        )
        slowest = min(slowest, 1 / both)
        print(
            f"{title:8} {len(data):5} bytes  {1 / both:9,.0f} pods/s  decode {decoding * 1e6:5.1f} us  "
            f"observe {(both - decoding) * 1e6:5.1f} us  {both / reading:4.2f} of json.loads"
        )
    print(f"{'slowest':8} {slowest:9,.0f} pods/s, wanted {WANTED:,}")


if __name__ == "__main__":
    main()
