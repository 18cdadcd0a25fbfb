"""Logs of the embedded cluster, as the recordings `logs` and `logs-interrupted` have them."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.lib.harness.devcluster import Client, pod_manifest

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


@pytest.fixture
def told(client: Client, name: str) -> str:
    """A pod that has said something and is over."""
    script = "for i in 1 2 3; do echo line $i; done; printf 'no newline at the end'"
    client.create(pod_manifest(name, ["sh", "-c", script]))
    client.finished(name)
    return name


def test_a_log_is_the_output_byte_for_byte(client: Client, told: str) -> None:
    """Without options it is what the container wrote, a last line without its newline included."""
    assert client.log(told).content == b"line 1\nline 2\nline 3\nno newline at the end"


def test_timestamps_stand_before_every_line(client: Client, told: str) -> None:
    """Nine decimals, one blank, strictly rising."""
    lines = client.log(told, timestamps="true").content.split(b"\n")
    stamps = [found.group() for line in lines if (found := _STAMP.match(line))]
    assert len(stamps) == 4
    assert stamps == sorted(set(stamps))


def test_the_tail_and_the_limit(client: Client, told: str) -> None:
    """TailLines counts records, limitBytes counts bytes that go out."""
    assert client.log(told, tailLines="2").content == b"line 3\nno newline at the end"
    assert client.log(told, tailLines="0").content == b""
    assert client.log(told, limitBytes="10").content == b"line 1\nlin"


def test_since_cuts_to_whole_seconds(client: Client, told: str) -> None:
    """A resumed log begins with the second it was left at, so that lines come twice."""
    last = client.log(told, timestamps="true").content.split(b"\n")[-1].split(b" ")[0].decode()
    assert client.log(told, sinceTime=last).content.endswith(b"no newline at the end")
    assert client.log(told, sinceTime="2099-01-01T00:00:00Z").content == b""


@pytest.mark.parametrize("stream", ["Stdout", "Stderr"])
def test_streams_cannot_be_asked_for(client: Client, told: str, stream: str) -> None:
    """422, as on a default 1.36 cluster."""
    answer = client.log(told, stream=stream)
    assert answer.status_code == 422
    assert answer.json()["message"] == (f'PodLogOptions "{told}" is invalid: stream: Forbidden: may not be specified')


def test_a_foreign_container_is_refused(client: Client, told: str) -> None:
    """400 with the name."""
    assert client.log(told, "nope").json()["message"] == f"container nope is not valid for pod {told}"


def test_a_log_before_the_start_is_refused(client: Client, name: str) -> None:
    """400 `is waiting to start: PodInitializing` while an init container runs."""
    manifest = pod_manifest(name, ["true"])
    image = manifest["spec"]["containers"][0]["image"]
    manifest["spec"]["initContainers"] = [{"name": "senro-stage", "image": image, "command": ["sleep", "60"]}]
    client.create(manifest)
    client.running(name, "senro-stage")
    answer = client.log(name, follow="true")
    assert answer.status_code == 400
    assert answer.json()["message"] == f'container "step" in pod "{name}" is waiting to start: PodInitializing'
    client.delete(name, gracePeriodSeconds=0)


def test_a_follow_brings_lines_as_they_are_written(client: Client, name: str) -> None:
    """The first line arrives while the container runs, the stream ends when it ends."""
    script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two >&2"
    client.create(pod_manifest(name, ["sh", "-c", script]))
    client.running(name)
    with client.http.stream(
        "GET", f"/api/v1/namespaces/ci/pods/{name}/log", params={"follow": "true", "container": "step"}
    ) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "one"
        if client.cluster.mode == "bubblewrap":
            client.run(name, ["touch", "/tmp/go"])
        assert list(lines) == ["two"]
    assert client.finished(name)["status"]["phase"] == "Succeeded"


def test_a_follow_ends_when_its_container_is_deleted(client: Client, name: str) -> None:
    """logs-interrupted: with grace 0 the log goes on until the process is gone, then ends cleanly."""
    client.create(pod_manifest(name, ["sh", "-c", "echo up; sleep 600"]))
    client.running(name)
    with client.http.stream("GET", f"/api/v1/namespaces/ci/pods/{name}/log?follow=true") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "up"
        client.delete(name, gracePeriodSeconds=0)
        assert list(lines) == []
    assert client.log(name).status_code == 404


def test_a_kubelet_restarts(client: Client, name: str) -> None:
    """Follows break, the kubelet is out of reach for a while, then the log is there again: the container ran on."""
    script = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done"
    client.create(pod_manifest(name, ["sh", "-c", script]))
    client.running(name)
    with client.http.stream("GET", f"/api/v1/namespaces/ci/pods/{name}/log?follow=true") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "0"
        client.cluster.restart_kubelet(seconds=0.3)
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
    refused = client.log(name)
    assert (refused.status_code, "connect: connection refused" in refused.text) == (500, True)
    client.until(name, lambda _: client.log(name).status_code == 200)
    with client.http.stream("GET", f"/api/v1/namespaces/ci/pods/{name}/log?follow=true") as answer:
        numbers = [int(line) for line, _ in zip(answer.iter_lines(), range(30), strict=False)]
    assert numbers == list(range(30))
    (node,) = client.http.get("/api/v1/nodes").json()["items"]
    conditions = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
    assert (conditions["Ready"], node["spec"].get("taints")) == ("True", None)
    assert client.cluster.starts("ci", name) == {"step": 1}
    client.delete(name, gracePeriodSeconds=0)


def test_a_line_in_parts_of_two_seconds(client: Client, name: str) -> None:
    """Only the first part of a line has a time: where `sinceTime` leaves it out, the log begins with the bare rest."""
    part = "head -c 20000 /dev/zero | tr '\\0' x"
    client.create(pod_manifest(name, ["sh", "-c", f"{part}; sleep 1.1; {part}; echo; echo next"]))
    client.finished(name)
    head, following = client.log(name, timestamps="true").content.splitlines()
    assert (len(head), following[31:]) == (31 + 40_000, b"next")
    rest, again = client.log(name, timestamps="true", sinceTime=following[:30].decode()).content.splitlines()
    assert (set(rest), again) == ({ord("x")}, following)
    assert 20_000 <= len(rest) < 40_000


def test_long_lines_are_whole_again(client: Client, name: str) -> None:
    """A line of 100,000 characters is cut into records of 16 KiB and served as one line with one time."""
    client.create(pod_manifest(name, ["sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; echo"]))
    client.finished(name)
    content = client.log(name, timestamps="true").content
    assert _STAMP.sub(b"", content) == b"x" * 100_000 + b"\n"
    assert len(_STAMP.findall(content)) == 1
