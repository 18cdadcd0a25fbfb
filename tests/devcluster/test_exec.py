"""Exec on the embedded cluster, frame by frame, as the recordings have it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lib.harness.devcluster import V4, V5, Client, Socket, pod_manifest, recording


@pytest.fixture
def pod(client: Client, name: str) -> Iterator[str]:
    """A pod whose step sleeps."""
    client.create(pod_manifest(name, ["sleep", "600"]))
    client.running(name)
    yield name
    client.delete(name, gracePeriodSeconds=0)


def recorded_status(needle: str) -> object:
    """The status document of the recorded exec whose query holds that text."""
    for exchange in recording("exec-basics")["exchanges"]:
        if needle in json.dumps(exchange["request"]["query"]) and exchange.get("result", {}).get("status"):
            return json.loads(exchange["result"]["status"])
    raise AssertionError(needle)


@pytest.mark.parametrize("protocol", [V5, V4])
def test_success_is_the_first_channel_then_a_status_then_close(client: Client, pod: str, protocol: str) -> None:
    """`[1]` alone comes first, then the Success document, then close 1000, on either protocol."""
    with client.exec(pod, ["true"], protocol=protocol) as session:
        assert session.status == 101
        assert session.headers["sec-websocket-protocol"] == protocol
        result = session.finish()
    assert result.messages == [b"\x01", b'\x03{"metadata":{},"status":"Success"}']
    assert result.close_code == 1000


def test_streams_are_kept_apart_and_the_code_is_told(client: Client, pod: str) -> None:
    """Stdout on channel 1, stderr on 2, exit 7 in the recorded document."""
    result = client.run(pod, ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.channel(1), result.channel(2)) == (b"out\n", b"err\n")
    assert result.status == recorded_status("exit 7")


def test_a_command_killed_by_a_signal_is_128_and_the_signal(client: Client, pod: str) -> None:
    """Kill -9 of itself is exit code 137, in the recorded document."""
    assert client.run(pod, ["sh", "-c", "kill -9 $$"]).status == recorded_status("kill -9")


def test_a_missing_program_is_an_internal_error(client: Client, pod: str) -> None:
    """The recorded words of the runtime, with another id in them."""
    status = client.run(pod, ["no-such-program"]).status
    recorded = recorded_status("no-such-program")
    assert isinstance(recorded, dict)
    assert status is not None
    identifier = recorded["message"].split('\\"')[0].split('start exec "')[1].split('"')[0]
    ours = status["message"].split('start exec "')[1].split('"')[0]
    assert json.dumps(status).replace(ours, identifier) == json.dumps(recorded)


def test_an_empty_command_is_an_internal_error(client: Client, pod: str) -> None:
    """`args must not be empty`, behind the 101."""
    status = client.run(pod, []).status
    assert status is not None
    assert status["message"].endswith("exec failed: args must not be empty")


def test_stdin_is_fed_and_closed(client: Client, pod: str) -> None:
    """Cat gives back what it is sent and ends with the close signal of v5."""
    with client.exec(pod, ["cat"], stdin=True) as session:
        session.stdin(b"hello\n")
        session.stdin(b"world\n")
        session.close_stdin()
        result = session.finish()
    assert result.channel(1) == b"hello\nworld\n"
    assert result.exit_code == 0


def test_v4_cannot_close_stdin(client: Client, pod: str) -> None:
    """The close signal of v5 is data for no stream on v4: the command goes on."""
    with client.exec(pod, ["sh", "-c", "read a; echo $a; read b; echo $b"], stdin=True, protocol=V4) as session:
        session.close_stdin()
        session.stdin(b"one\n")
        session.stdin(b"two\n")
        assert session.finish().channel(1) == b"one\ntwo\n"


def test_every_frame_is_a_message(client: Client, pod: str) -> None:
    """FIN is ignored: a continuation's first byte is taken as a channel.

    See docs/design/exec-protocol.md#one-frame-is-one-message.
    """
    with client.exec(pod, ["cat"], stdin=True) as session:
        session.send(b"\x00first", final=False)
        session.send(b"\x00second", opcode=0)
        session.close_stdin()
        assert session.finish().channel(1) == b"firstsecond"


def test_an_unmasked_frame_ends_with_1002(client: Client, pod: str) -> None:
    """Client frames are masked or the server closes with a protocol error."""
    with client.exec(pod, ["cat"], stdin=True) as session:
        session.send(b"\x00x", masked=False)
        assert session.finish().close_code == 1002


def test_a_close_signal_of_another_length_drops_the_connection(client: Client, pod: str) -> None:
    """Two bytes, or the connection ends without a close frame."""
    with client.exec(pod, ["cat"], stdin=True) as session:
        session.send(b"\xff")
        result = session.finish()
    assert (result.close_code, result.status) == (None, None)


def test_pings_are_answered(client: Client, pod: str) -> None:
    """A ping comes back as a pong with its payload."""
    with client.exec(pod, ["cat"], stdin=True) as session:
        assert session.frame() == (2, b"\x01")
        session.send(b"beat", opcode=9)
        assert session.frame() == (10, b"beat")


def test_a_client_close_loses_the_status(client: Client, pod: str) -> None:
    """The server answers with 1000 and no status."""
    with client.exec(pod, ["cat"], stdin=True) as session:
        session.send(b"\x03\xe8", opcode=8)
        result = session.finish()
    assert (result.close_code, result.status) == (1000, None)


def test_the_first_message_is_on_the_lowest_output_channel(client: Client, pod: str) -> None:
    """2 without stdout; and what was not asked for is not sent."""
    result = client.run(pod, ["sh", "-c", "echo out; echo err >&2"], stdout=False)
    assert result.messages[:2] == [b"\x02", b"\x02err\n"]
    assert result.channel(1) == b""


def test_the_clients_first_choice_is_taken(client: Client, pod: str) -> None:
    """The order is the client's, and what the server does not know is passed over."""
    offers = "nothing.example, v5.channel.k8s.io, v4.channel.k8s.io"
    with client.exec(pod, ["true"], protocol=offers) as session:
        assert session.headers["sec-websocket-protocol"] == "v5.channel.k8s.io"


def test_an_unsupported_subprotocol_is_an_empty_403(client: Client, pod: str) -> None:
    """No body, no length, `connection: close` (recording exec-basics)."""
    with client.exec(pod, ["true"], protocol="nothing.example") as session:
        assert (session.status, session.headers, session.body()) == (403, {"connection": "close"}, b"")


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"container": "nope"}, 400, "container nope is not valid for pod {name}"),
        ({"stdout": False, "stderr": False}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ({"headers": {"Upgrade": "none"}}, 400, "Upgrade request required"),
        ({"headers": {"Sec-WebSocket-Version": "12"}}, 400, "missing or bad WebSocket Version"),
        ({"headers": {"Sec-WebSocket-Key": ""}}, 400, "mismatch challenge/response"),
        ({"namespace": "kube-system"}, 403, 'cannot get resource \\"pods/exec\\" in API group'),
        ({"method": "POST"}, 405, ""),
    ],
)
def test_what_is_refused_before_the_101(
    client: Client, pod: str, options: dict[str, object], status: int, words: str
) -> None:
    """The recorded code and words for every way an exec is refused."""
    with client.exec(pod, ["true"], **options) as session:  # type: ignore[arg-type]  # a table of keywords
        assert session.status == status
        assert words.format(name=pod) in session.body().decode()


def test_the_only_container_need_not_be_named(client: Client, pod: str) -> None:
    """One regular container is meant where none is named."""
    assert client.run(pod, ["true"], container=None).exit_code == 0


def test_an_absent_pod_is_not_found(client: Client) -> None:
    """404 with a Status."""
    with client.exec("no-such-pod", ["true"]) as session:
        assert json.loads(session.body())["message"] == 'pods "no-such-pod" not found'


def test_an_exec_ends_with_its_container(client: Client, name: str) -> None:
    """The command is killed with the pod, and 137 still arrives (recording transfers-broken)."""
    client.create(pod_manifest(name, ["sleep", "600"]))
    client.running(name)
    with client.exec(name, ["sh", "-c", "echo up; sleep 600"]) as session:
        assert session.frame() == (2, b"\x01")
        assert session.frame() == (2, b"\x01up\n")
        client.delete(name, gracePeriodSeconds=0)
        assert session.finish().exit_code == 137


def test_a_command_outlives_its_client(client: Client, pod: str) -> None:
    """When the connection ends, stdin ends, and the command carries on.

    See docs/design/exec-protocol.md#the-command-outlives-its-client.
    """
    with client.exec(pod, ["sh", "-c", "cat > /tmp/part; echo $? > /tmp/ended"], stdin=True) as session:
        session.stdin(b"half")
        assert session.frame() == (2, b"\x01")
    found = client.run(pod, ["sh", "-c", "until [ -s /tmp/ended ]; do sleep 0.02; done; cat /tmp/part /tmp/ended"])
    if client.cluster.mode == "bubblewrap":
        assert found.channel(1) == b"half0\n"


def test_a_command_that_writes_to_nobody_can_end(client: Client, pod: str) -> None:
    """Its output is read and thrown away when the client is gone."""
    with client.exec(pod, ["sh", "-c", "head -c 5000000 /dev/zero; echo done > /tmp/done"]) as session:
        assert session.frame() == (2, b"\x01")
    assert client.run(pod, ["sh", "-c", "until [ -s /tmp/done ]; do sleep 0.02; done"]).exit_code == 0


def feed(session: Socket, messages: int) -> None:
    for _ in range(messages):
        session.stdin(bytes(65_536))


def test_a_command_that_stops_reading_stands_still(client: Client, pod: str) -> None:
    """Back pressure: what is not read fills the pipe and the socket, and no status arrives (transfers-broken)."""
    with client.exec(pod, ["sh", "-c", "exec 3<&0; sleep 0.2; exit 3"], stdin=True) as session:
        session.raw.settimeout(1.5)
        with pytest.raises(TimeoutError):
            feed(session, 2000)
        session.raw.settimeout(0.3)
        assert session.frame() == (2, b"\x01")
        with pytest.raises(TimeoutError):
            session.frame()


def test_a_slow_reader_blocks_the_command(client: Client, pod: str) -> None:
    """A command writes no more than buffers hold while nobody reads, and loses nothing."""
    script = "head -c 30000000 /dev/zero; echo written > /tmp/written"
    with client.exec(pod, ["sh", "-c", script], protocol=V4) as session:
        assert session.frame() == (2, b"\x01")
        early = client.run(pod, ["sh", "-c", "sleep 0.3; test -e /tmp/written"])
        assert early.exit_code == 1
        assert len(session.finish().channel(1)) == 30_000_000


def test_messages_of_the_server_are_no_larger_than_32_kib(client: Client, pod: str) -> None:
    """As a real server cuts them (docs/design/measurements.md#message-sizes)."""
    result = client.run(pod, ["head", "-c", "1000000", "/dev/zero"])
    assert max(len(message) for message in result.messages) == 32_769
    assert len(result.channel(1)) == 1_000_000


def test_a_command_that_closes_its_output_loses_its_stdin(mapped: Client, name: str) -> None:
    """Containerd closes the stdin of a process that closes its stderr.

    See docs/design/measurements.md#a-closed-output-closes-stdin.

    Mapped alone: under bubblewrap, nsenter holds the streams open beside the command.
    """
    mapped.create(pod_manifest(name, ["sleep", "600"]))
    mapped.running(name)
    with mapped.exec(name, ["sh", "-c", "exec 2>&-; cat; echo end"], stdin=True) as session:
        assert session.finish().channel(1) == b"end\n"


def test_many_execs_at_once(client: Client, pod: str) -> None:
    """Twenty sessions of one pod run side by side."""
    sessions = [client.exec(pod, ["sh", "-c", f"sleep 0.5; echo {number}"]) for number in range(20)]
    opened = [session.__enter__() for session in sessions]
    assert [session.finish().channel(1) for session in opened] == [b"%d\n" % number for number in range(20)]
    for session in sessions:
        session.__exit__(None, None, None)
