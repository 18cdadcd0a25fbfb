"""Mutates the corpus at random, by bytes and by values, and gives it to the decoder, the classifier and the reader.

    python tests/fuzz/fuzz_bytes.py [--seconds N] [--seed N] [--write-corpus]

An input with a new feature is mutated further. An input that makes anything raise is written to the corpus as
`found-*.json`, which `make test` checks from then on. `--write-corpus` creates the corpus from the recordings: the
state of each pod that decided its answer, reduced to the fields that senro reads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from senro.domain.kube.pod import pod_from
from senro.domain.verdict.signals.known_states import ROWS
from tests.lib.verdict.fuzz import CORPUS, Feature, check
from tests.lib.verdict.observations import fold, recorded_pod, recorded_pods
from tests.lib.verdict.pod_grammar import CODES, MESSAGES, TIMES

KEPT = 4_000
"""Maximum number of inputs to mutate besides the corpus; the oldest are dropped first."""

WORDS = [word for row in ROWS for word in row.words if word]
TOKENS = [
    *(json.dumps(word).encode() for word in WORDS),
    *(b'{"waiting":null}', b'{"running":{}}', b'{"terminated":{"exitCode":0}}', b"null", b"[]", b"{}", b'""', b"-1"),
    *(b"1e999", b"9223372036854775808", b"1" * 30, b'"\\ud800"', b"\xff", b"[" * 200, b'{"a":' * 50, b"NaN", b"\x00"),
]
VALUES: list[Any] = [*WORDS, *CODES, *MESSAGES, *TIMES, None, True, [], {}, [None], {"a": 1}, 1.5, 2**70, "\udcff"]


def write_corpus() -> None:
    """Writes a file for each recorded pod."""
    for scenario, name in recorded_pods():
        pod = recorded_pod(scenario, name)
        answers = fold(pod.memory(), pod.observations[: pod.ours])
        decided = next((index for index, answer in enumerate(answers) if answer.settled), len(answers) - 1)
        document = next(each for each in reversed(pod.documents[: decided + 1]) if each is not None)
        (CORPUS / f"{scenario}-{name}.json").write_bytes(msgspec.json.encode(pod_from(document)) + b"\n")


def flip_bit(data: bytes, randomness: random.Random) -> bytes:
    place = randomness.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << randomness.randrange(8))]) + data[place + 1 :]


def insert_token(data: bytes, randomness: random.Random) -> bytes:
    place = randomness.randrange(len(data))
    return data[:place] + randomness.choice(TOKENS) + data[place:]


def delete_bytes(data: bytes, randomness: random.Random) -> bytes:
    place = randomness.randrange(len(data))
    return data[:place] + data[place + randomness.randrange(1, 40) :]


def repeat_bytes(data: bytes, randomness: random.Random) -> bytes:
    place = randomness.randrange(len(data))
    return data[:place] + data[place : place + randomness.randrange(1, 200)] + data[place:]


def change_value(data: bytes, randomness: random.Random) -> bytes:
    """Replaces or removes a value of the document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return insert_token(data, randomness)
    holders = list(_holders(document))
    if not holders:
        return insert_token(data, randomness)
    holder, key = randomness.choice(holders)
    if isinstance(holder, dict) and randomness.random() < 0.2:
        del holder[key]
    else:
        holder[key] = randomness.choice(VALUES)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _holders(value: Any) -> list[tuple[Any, Any]]:
    found, left = [], [value]
    while left:
        each = left.pop()
        inner = (
            list(each.items()) if isinstance(each, dict) else list(enumerate(each)) if isinstance(each, list) else []
        )
        found += [(each, key) for key, _ in inner]
        left += [part for _, part in inner]
    return found


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bit,
    insert_token,
    delete_bytes,
    repeat_bytes,
    *([change_value] * 6),
)


def fuzz(seconds: float, seed: int) -> int:
    """Mutates and checks until the time is over. Returns the number of inputs that failed."""
    randomness = random.Random(seed)
    corpus = [path.read_bytes() for path in sorted(CORPUS.glob("*.json"))]
    kept: list[bytes] = []
    met: set[Feature] = set()
    tried = failed = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        data = randomness.choice(kept if kept and randomness.random() < 0.7 else corpus)
        for _ in range(randomness.choice((1, 1, 2, 4, 8))):
            data = randomness.choice(CHANGES)(data, randomness) or b"{}"
        tried += 1
        try:
            feature = check(data)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what is looked for
            failed += 1
            _keep_failure(data, error)
            continue
        if feature not in met:
            met.add(feature)
            kept = [*kept[-KEPT:], data]
    _say(f"bytes: {tried:,} inputs, {len(met):,} ways to an answer, {failed} failures (seed {seed})")
    return failed


def _keep_failure(data: bytes, error: Exception) -> None:
    path = CORPUS / f"found-{hashlib.sha256(data).hexdigest()[:16]}.json"
    path.write_bytes(data)
    _say(f"{path}: {type(error).__name__}: {str(error)[:200]}")


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> int:
    """Exits with 1 if an input failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--write-corpus", action="store_true")
    arguments = parser.parse_args()
    if arguments.write_corpus:
        write_corpus()
        return 0
    return 1 if fuzz(arguments.seconds, arguments.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
