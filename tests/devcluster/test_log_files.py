"""Logs that are rotated, cut into parts, and read while they are written (recordings log-rotation, logs)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.devcluster import DevCluster, DevClusterThread, VirtualClock
from senro.devcluster.containers.log import ContainerLog, LogFilter
from tests.lib.harness.devcluster import Client, pod_manifest


def log_of(folder: Path, limit: int = 10_000_000) -> ContainerLog:
    return ContainerLog(folder / "0.log", VirtualClock(start=0, frozen=True), limit=limit)


@pytest.mark.anyio
async def test_a_follower_sees_every_line_across_rotations(tmp_path: Path) -> None:
    """Who follows from the start gets all; who reads afterwards gets the newest file alone."""
    log = log_of(tmp_path, limit=2_000)
    chosen = LogFilter(timestamps=False)
    followed = bytearray()

    async def follow() -> None:
        async for records in log.records(follow=True):
            followed.extend(chosen.apply(records))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        for number in range(1_000):
            log.write("stdout", b"%d\n" % number)
            if number % 90 == 0:
                await anyio.wait_all_tasks_blocked()
        log.end()
    assert followed == b"".join(b"%d\n" % number for number in range(1_000))
    left = LogFilter(timestamps=False).apply(log.read_all()).split()
    assert 0 < len(left) < 60
    assert left[-1] == b"999"
    log.close()


@pytest.mark.anyio
async def test_a_tail_goes_on_in_the_file_it_began_in(tmp_path: Path) -> None:
    """A rotation between the tail and what follows it loses nothing."""
    log = log_of(tmp_path, limit=500)
    log.write("stdout", b"old\n" * 5)
    position = len(log.read_all())
    records = log.records(follow=True, position=position)
    for number in range(50):
        log.write("stdout", b"%d\n" % number)
    log.end()
    told = LogFilter(timestamps=False)
    assert b"".join([told.apply(some) async for some in records]) == b"".join(b"%d\n" % n for n in range(50))
    log.close()


def test_after_a_part_no_record_begins_a_line(tmp_path: Path) -> None:
    """No time stands before what follows a part, be it of the other stream: the kubelet remembers the tag alone."""
    log = log_of(tmp_path)
    log.write("stdout", b"x" * 16_384)
    log.write("stderr", b"told meanwhile\n")
    log.write("stdout", b"the rest\nnext\n")
    told = LogFilter(timestamps=True).apply(log.read_all())
    lines = told.split(b"\n")
    assert lines[0].endswith(b"x" * 16_384 + b"told meanwhile")
    assert lines[0].count(b"Z ") == 1
    assert lines[1].endswith(b"Z the rest")
    assert lines[2].endswith(b"Z next")
    log.close()


writes = st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40)), max_size=30)


@given(writes, st.integers(60, 400))
def test_each_streams_bytes_come_out_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, bytes]], limit: int
) -> None:
    """Whatever was written, in whichever pieces: every byte of a stream is in its records, in order, unrotated."""
    log = log_of(tmp_path_factory.mktemp("log"))
    rotated = log_of(tmp_path_factory.mktemp("rotated"), limit=limit)
    for one, (stream, data) in itertools.product((log, rotated), told):
        one.write(stream, data)
    for one, stream in itertools.product((log, rotated), ("stdout", "stderr")):
        one.end_stream(stream)
    for stream in ("stdout", "stderr"):
        wanted = b"".join(data for name, data in told if name == stream)
        assert _bytes_of(log.read_all(), stream) == wanted
        assert wanted.endswith(_bytes_of(rotated.read_all(), stream))
    log.close()
    rotated.close()


def _bytes_of(records: bytes, stream: str) -> bytes:
    out = b""
    for record in records.split(b"\n")[:-1]:
        _, name, tag, text = record.split(b" ", 3)
        if name == stream.encode():
            out += text + (b"\n" if tag == b"F" else b"")
    return out


@pytest.fixture(scope="module")
def small() -> Iterator[DevCluster]:
    with DevClusterThread(log_limit=20_000) as cluster:
        yield cluster


def test_a_rotated_log_of_a_pod(small: DevCluster, name: str) -> None:
    """log-rotation in small: a follow brings every line, a read after the end what the newest file holds."""
    client = Client(small)
    client.create(pod_manifest(name, ["sh", "-c", "seq 1 4000; sleep 0.1; seq 4001 4010"]))
    client.running(name)
    with client.http.stream(
        "GET", f"/api/v1/namespaces/ci/pods/{name}/log", params={"container": "step", "follow": "true"}
    ) as log:
        lines = [line for line in log.iter_lines() if line]
    # A follow begins with the newest file there is, and goes on without a gap.
    assert [int(line) for line in lines] == list(range(int(lines[0]), 4011))
    client.finished(name)
    left = client.log(name).text.split()
    assert [int(line) for line in left] == list(range(int(left[0]), 4011))
    assert 0 < len(left) < 1000
    client.delete(name, gracePeriodSeconds=0)
    client.close()
