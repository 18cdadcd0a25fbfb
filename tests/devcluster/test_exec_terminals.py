"""Execs with a terminal, those of other versions, and those that lose their container (recording exec-tty)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from senro.devcluster import DevCluster, DevClusterThread
from senro.devcluster.apiserver.exec_session import terminal_sizes
from tests.lib.harness.devcluster import V4, V5, Client, ExecResult, Socket, pod_manifest


@pytest.fixture
def pod(client: Client, name: str) -> Iterator[str]:
    client.create(pod_manifest(name, ["sleep", "600"]))
    client.running(name)
    yield name
    client.delete(name, gracePeriodSeconds=0)


def until(session: Socket, wanted: bytes) -> bytes:
    """Output until it holds the wanted text; what came before the connection's end where it never does."""
    told = b""
    while wanted not in told and (frame := session.frame()) is not None:
        opcode, payload = frame
        if opcode == 8:
            break
        assert payload[:1] in {b"\x01", b"\x03"}
        told += payload[1:]
    assert wanted in told, told
    return told


@pytest.mark.parametrize("protocol", [V5, V4])
@pytest.mark.parametrize("runtime", ["client", "mapped"])
def test_a_terminal_is_one(request: pytest.FixtureRequest, name: str, protocol: str, runtime: str) -> None:
    """TERM is xterm, both outputs are one, the size follows the client, ^C interrupts, and the code comes out."""
    client: Client = request.getfixturevalue(runtime)
    name = f"tty-{runtime}-{protocol[:2]}"
    client.create(pod_manifest(name, ["sleep", "600"]))
    client.running(name)
    with client.exec(name, ["sh"], stdin=True, tty=True, protocol=protocol) as session:
        assert session.frame() == (2, b"\x01")
        session.send(b'\x04{"Width": 100, "Height": 40}')
        session.stdin(b"PS1='ready> '\n")
        session.stdin(b"stty size; echo $TERM; echo oops >&2; test -t 0 && echo terminal $((6 * 7))\n")
        told = until(session, b"terminal 42\r\n")
        assert b"40 100\r\n" in told
        assert b"xterm\r\n" in told
        assert b"oops\r\n" in told
        session.send(b'\x04{"width":120,"height":50}')
        session.stdin(b"stty size\n")
        until(session, b"50 120\r\n")
        # It says so itself, and so has the terminal by then.
        session.stdin(b"sh -c 'echo begun $((6 * 7)); exec sleep 50'\n")
        until(session, b"begun 42\r\n")
        session.stdin(b"\x03")
        # What is typed before the shell is back at its prompt may go with the line that was interrupted.
        until(session, b"ready> ")
        session.stdin(b"echo next $((6 * 7))\n")
        until(session, b"next 42\r\n")
        session.stdin(b"exit 5\n")
        result = session.finish()
    assert result.exit_code == 5
    client.delete(name, gracePeriodSeconds=0)


def test_the_end_of_the_input_is_a_character(client: Client, pod: str) -> None:
    """^D ends the shell; v5's close signal does not."""
    with client.exec(pod, ["sh"], stdin=True, tty=True) as session:
        session.close_stdin()
        session.stdin(b"echo here $((6 * 7))\n")
        until(session, b"here 42\r\n")
        session.stdin(b"\x04")
        assert session.finish().exit_code == 0


def test_sizes_of_a_terminal_that_is_none(client: Client, pod: str) -> None:
    """The first is dropped, the second stops the one loop there is: pings are not answered any more."""
    with client.exec(pod, ["sleep", "2"], stdin=True) as session:
        session.send(b'\x04{"Width": 1, "Height": 1}')
        session.send(b"first", opcode=9)
        while (frame := session.frame()) is not None and frame[0] != 10:
            pass
        assert frame == (10, b"first")
        session.send(b'\x04{"Width": 1, "Height": 1}')
        session.send(b"second", opcode=9)
        assert [payload for payload in session.finish().messages if payload == b"second"] == []


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (b'{"Width":80,"Height":24}', [(80, 24)]),
        (b'{"WIDTH":1,"height":2}{"Width":3,"Height":4}', [(1, 2), (3, 4)]),
        (b'{"Width":"a"}', []),
        (b'{"Width":70000,"Height":1}', []),
        (b"[1]", []),
        (b"nonsense", []),
        (b"", []),
        (b"\xff", []),
    ],
)
def test_what_a_resize_message_says(text: bytes, sizes: list[tuple[int, int]]) -> None:
    """JSON objects without a separator, keys in any case; anything else is no size."""
    assert terminal_sizes(text) == sizes


@pytest.mark.bubblewrap
@pytest.mark.parametrize("closing", ["exec 1>&-", "exec 2>/dev/null"])
def test_closing_an_output_loses_the_input(client: Client, pod: str, closing: str) -> None:
    """A command that closes its stdout or stderr has its stdin closed, under bubblewrap too.

    See docs/design/measurements.md#a-closed-output-closes-stdin.
    """
    script = f"{closing}; cat > /tmp/got; echo $? > /tmp/done"
    with client.exec(pod, ["sh", "-c", script], stdin=True) as session:
        assert session.frame() == (2, b"\x01")
        session.stdin(b"x" * 10)
        wait = "until [ -e /tmp/done ]; do sleep 0.02; done; wc -c < /tmp/got"
        assert client.run(pod, ["sh", "-c", wait]).channel(1).strip() in {b"0", b"10"}
    client.run(pod, ["rm", "-f", "/tmp/done", "/tmp/got"])


@pytest.mark.bubblewrap
def test_a_child_that_holds_an_output_keeps_the_input(client: Client, pod: str) -> None:
    """As long as anything has it open, nothing is closed."""
    script = "sleep 600 & exec 1>&- 2>&-; head -c 5 > /tmp/five; kill $!"
    with client.exec(pod, ["sh", "-c", script], stdin=True) as session:
        assert session.frame() == (2, b"\x01")
        client.run(pod, ["sleep", "0.5"])  # longer than the cluster takes to look
        session.stdin(b"12345")
        assert session.finish().exit_code == 0
    assert client.run(pod, ["cat", "/tmp/five"]).channel(1) == b"12345"


@pytest.mark.bubblewrap
def test_an_exec_that_races_with_its_containers_end(client: Client, name: str) -> None:
    """137, the command's own code, or `container not found`: never a word of the tools that enter a container."""
    seen = set()
    for number in range(12):
        pod = f"{name}-{number}"
        client.create(pod_manifest(pod, ["sleep", f"0.{20 + number}"]))
        client.running(pod)
        for _ in range(60):
            with client.exec(pod, ["sh", "-c", "echo in; sleep 0.01"]) as session:
                if session.status == 101:
                    result = session.finish()
                    seen.add(outcome(result))
                else:
                    assert (session.status, session.body()) == (500, b'container not found ("step")')
                    seen.add("container not found")
                    break
    assert seen <= {"0", "137", "container not found"}
    assert "container not found" in seen


def outcome(result: ExecResult) -> str:
    assert result.channel(2) == b""
    assert result.channel(1) in {b"", b"in\n"}
    return str(result.exit_code)


@pytest.fixture(scope="module")
def older() -> Iterator[DevCluster]:
    with DevClusterThread(version="1.33") as cluster:
        yield cluster


def test_before_1_36_the_errors_come_behind_the_101(older: DevCluster, name: str) -> None:
    """On v5 the apiserver speaks first, and the kubelet's refusal is a status; on v4 it is an answer as ever."""
    client = Client(older)
    client.create(pod_manifest(name, ["true"]))
    client.finished(name)
    with client.exec(name, ["true"], protocol=V5) as session:
        assert session.status == 101
        result = session.finish()
    words = 'unable to upgrade connection: container not found ("step")'
    assert result.status is not None
    assert (result.status["reason"], result.status["message"]) == ("InternalError", f"Internal error occurred: {words}")
    with client.exec(name, ["true"], protocol=V4) as session:
        assert (session.status, session.body()) == (500, b'container not found ("step")')
    (node,) = client.http.get("/api/v1/nodes").json()["items"]
    assert "declaredFeatures" not in node["status"]
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.33.")
    client.close()


def test_an_unreachable_kubelet_of_an_older_version(older: DevCluster, name: str) -> None:
    """The status names the request that could not be sent."""
    client = Client(older)
    client.create(pod_manifest(name, ["sleep", "60"]))
    client.running(name)
    older.faults.refuse_handshake()
    result = client.run(name, ["echo", "a b"])
    assert result.status is not None
    assert result.status["message"] == (
        "Internal error occurred: error sending request: Post "
        f'"https://10.85.0.1:10250/exec/ci/{name}/step?command=echo&command=a+b&error=1&output=1": '
        "dial tcp 10.85.0.1:10250: connect: connection refused"
    )
    assert json.dumps(result.status)
    client.delete(name, gracePeriodSeconds=0)
    client.close()
