from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.adapters.apiserver.websocket import CloseFrame, Framing, Message, TextMessage, WebSocketEvent
from senro.domain.errors import ProtocolError, StreamBroken
from senro.domain.kube.exec_protocol import (
    STDIN_LIMIT,
    V4,
    V5,
    Ended,
    ExecEvent,
    ExecFailure,
    ExecProtocol,
    ExecResult,
    ExitCode,
    IllegalTransition,
    StatusLost,
    Stderr,
    Stdout,
    decode_status,
)
from tests.lib.fakes.network import client_frames, server_frame

ASKED = "exec true in step of pod ci/a"
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def failure(**status: object) -> bytes:
    return json.dumps({"status": "Failure", **status}).encode()


def exit_with(code: object) -> bytes:
    cause = {"reason": "ExitCode", "message": code}
    return failure(reason="NonZeroExitCode", message="command terminated", details={"causes": [cause]})


def machine(*, stdin: bool = False) -> ExecProtocol:
    return ExecProtocol(ASKED, subprotocol=V5 if stdin else V4, stdin=stdin)


@pytest.mark.parametrize(
    ("document", "result"),
    [
        (b'{"metadata":{},"status":"Success"}', ExitCode(0)),
        (b'{"status":"Success"}', ExitCode(0)),
        (b'{"status":"Success","details":null,"invented":1}', ExitCode(0)),
        (exit_with("1"), ExitCode(1)),
        (exit_with("137"), ExitCode(137)),
        (exit_with("255"), ExitCode(255)),
        (
            failure(reason="InternalError", message="no such program", code=500),
            ExecFailure("InternalError", "no such program"),
        ),
        (failure(), ExecFailure("", "")),
        (failure(reason="Timeout"), ExecFailure("Timeout", "")),
    ],
)
def test_status(document: bytes, result: ExecResult) -> None:
    """A status document gives an exit code only if the command ran, else the server's message."""
    assert decode_status(ASKED, document) == result


@pytest.mark.parametrize("code", ["-1", "0", "256", "1000", "99999999999", "", "x", "1.0", " 1", "+1", "٣", None])
def test_an_invalid_exit_code(code: object) -> None:
    """A code outside 1 to 255, or no number, is a failure of the server, never a success."""
    result = decode_status(ASKED, exit_with(code))
    assert isinstance(result, ExecFailure)
    assert result.reason == "InternalError"
    assert "not from 1 to 255" in result.message


def test_a_status_without_an_exit_code() -> None:
    """NonZeroExitCode without the cause that has the code is a failure."""
    assert isinstance(decode_status(ASKED, failure(reason="NonZeroExitCode")), ExecFailure)
    causes = {"causes": [{"reason": "Other", "message": "1"}]}
    assert isinstance(decode_status(ASKED, failure(reason="NonZeroExitCode", details=causes)), ExecFailure)


@pytest.mark.parametrize(
    "document", [b"x", b"[]", b'"Success"', b"{}", b'{"status":"Unsure"}', b'{"status":1}', b"\xff"]
)
def test_a_malformed_status(document: bytes) -> None:
    """It raises ProtocolError, which quotes it."""
    with pytest.raises(ProtocolError):
        decode_status(ASKED, document)


@given(st.binary(max_size=200))
def test_any_status_document(document: bytes) -> None:
    """Any bytes on the status channel give a result or a ProtocolError."""
    try:
        result = decode_status(ASKED, document)
    except ProtocolError:
        return
    assert isinstance(result, ExitCode | ExecFailure)


@pytest.mark.parametrize("first", [b"\x01", b"\x02", b"\x03", b""])
def test_the_first_message_is_empty(first: bytes) -> None:
    """The server's first message has no event, and `[3]` is no status."""
    protocol = machine()
    assert protocol.receive_message(first) is None
    assert not protocol.ended


def test_channels() -> None:
    """Stdout and stderr are separate events; unknown channels are ignored."""
    protocol = machine()
    assert protocol.receive_message(b"\x01out") == Stdout(b"out")
    assert protocol.receive_message(b"\x02err") == Stderr(b"err")
    assert [protocol.receive_message(bytes([channel]) + b"x") for channel in (0, 4, 5, 254, 255)] == [None] * 5
    assert protocol.receive_message(SUCCESS) == Ended(ExitCode(0))
    assert protocol.ended


def test_nothing_after_the_end() -> None:
    """Everything after the status is ignored, also a second status and the close frame."""
    protocol = machine()
    protocol.receive_message(SUCCESS)
    assert protocol.receive_message(b"\x01late") is None
    assert protocol.receive_message(b"\x03nonsense") is None
    protocol.receive_text("late")
    assert protocol.receive_close(1000) is None


def test_a_lost_status() -> None:
    """An orderly close without a status gives StatusLost."""
    protocol = machine()
    assert protocol.receive_close(1000) == Ended(StatusLost(1000))
    assert protocol.ended


def test_a_broken_stream() -> None:
    """The error counts the payload bytes of both directions, without channel bytes."""
    protocol = machine(stdin=True)
    protocol.send(b"12345")
    protocol.receive_message(b"\x01abc")
    protocol.receive_message(b"\x02de")
    error = protocol.broken("reset")
    assert isinstance(error, StreamBroken)
    assert (error.operation, error.cause, error.sent, error.received) == (ASKED, "reset", 5, 5)
    assert protocol.ended


def test_text_messages_are_an_error() -> None:
    """Neither subprotocol has text messages."""
    with pytest.raises(ProtocolError, match="a text message: 'hello'"):
        machine().receive_text("hello")


def test_stdin_on_the_wire() -> None:
    """A message to stdin is the channel byte and the data; its end is 255, 0, once."""
    protocol = machine(stdin=True)
    assert protocol.send(b"hello\n") == b"\x00hello\n"
    assert protocol.close_stdin() == b"\xff\x00"
    assert protocol.close_stdin() == b""
    assert not protocol.stdin_open
    assert repr(protocol) == "<ExecProtocol running, stdin closed>"


@pytest.mark.parametrize("data", [b"", b"x" * (STDIN_LIMIT + 1)])
def test_stdin_is_bounded(data: bytes) -> None:
    """Empty messages and messages above 32 MiB raise ValueError."""
    protocol = machine(stdin=True)
    with pytest.raises(ValueError, match="has 1 to"):
        protocol.send(data)
    assert protocol.stdin_open


def test_invalid_subprotocols() -> None:
    """Stdin needs v5, and other subprotocols are refused."""
    with pytest.raises(ValueError, match="v4 cannot end it"):
        ExecProtocol(ASKED, subprotocol=V4, stdin=True)
    with pytest.raises(ProtocolError, match=r"got 'channel\.k8s\.io'"):
        ExecProtocol(ASKED, subprotocol="channel.k8s.io", stdin=False)


@pytest.mark.parametrize("action", ["send", "close_stdin"])
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("ended", [False, True])
def test_every_state_and_action(action: str, *, closed: bool, ended: bool) -> None:
    """Stdin can be sent while it is open, and closed repeatedly before the end; all else raises."""
    protocol = machine(stdin=True)
    if closed:
        protocol.close_stdin()
    if ended:
        protocol.receive_message(SUCCESS)
    before = protocol.ended, protocol.stdin_open
    if ended or (closed and action == "send"):
        with pytest.raises(IllegalTransition):
            _ = protocol.send(b"x") if action == "send" else protocol.close_stdin()
        assert (protocol.ended, protocol.stdin_open) == before
    else:
        _ = protocol.send(b"x") if action == "send" else protocol.close_stdin()
        assert (protocol.ended, protocol.stdin_open) == (False, action == "send")


def test_stdin_that_was_not_requested() -> None:
    """Without stdin, sending and closing raise."""
    protocol = machine()
    with pytest.raises(IllegalTransition):
        protocol.send(b"x")
    with pytest.raises(IllegalTransition):
        protocol.close_stdin()
    assert (protocol.ended, protocol.stdin_open) == (False, False)


# A server's bytes, through the framing and the subprotocol together.

messages = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda channel, data: bytes([channel]) + data, st.integers(0, 4), st.binary(max_size=300)),
    st.sampled_from([SUCCESS, b"\x03" + exit_with("7"), b"\x01", b"\x03", b"\x01" + b"x" * 70_000]),
)


@st.composite
def conversations(draw: st.DrawFn) -> bytes:
    """Bytes of a server: frames, fragments, control frames, text, or noise."""
    wire = b""
    for _ in range(draw(st.integers(0, 8))):
        data = draw(messages)
        kind = draw(st.sampled_from(["whole", "whole", "whole", "fragments", "ping", "pong", "text", "close", "noise"]))
        if kind == "whole":
            wire += server_frame(data)
        elif kind == "fragments":
            cut = draw(st.integers(0, len(data)))
            wire += server_frame(data[:cut], fin=False) + server_frame(b"p", opcode=9)
            wire += server_frame(data[cut:], opcode=0)
        elif kind in ("ping", "pong"):
            wire += server_frame(data[:125], opcode=9 if kind == "ping" else 10)
        elif kind == "text":
            wire += server_frame(data, opcode=1)
        elif kind == "close":
            wire += server_frame(draw(st.sampled_from([b"", b"\x03\xe8", b"\x03\xf3gone"])), opcode=8)
        else:
            wire += data
    return wire


def run(pieces: list[bytes]) -> tuple[list[ExecEvent], str | None]:
    """Returns the events of a stream that ends after `pieces`, and the error that ended it, if any."""
    framing, protocol = Framing(ASKED), machine()
    events: list[ExecEvent] = []
    try:
        for piece in pieces:
            for event in framing.receive(piece):
                found = take(protocol, event)
                if found is not None:
                    events.append(found)
            if protocol.ended:
                return events, None
            if framing.error is not None:
                raise framing.error
    except ProtocolError as error:
        return events, str(error)
    return events, str(protocol.broken("the end"))


def take(protocol: ExecProtocol, event: WebSocketEvent) -> ExecEvent | None:
    if isinstance(event, Message):
        return protocol.receive_message(event.data)
    if isinstance(event, CloseFrame):
        return protocol.receive_close(event.code)
    if isinstance(event, TextMessage):
        protocol.receive_text(event.text)
    return None


@given(conversations(), st.lists(st.integers(0, 100_000), max_size=12))
def test_any_split_gives_the_same_events(wire: bytes, cuts: list[int]) -> None:
    """However the bytes are split, the events and the error are the same."""
    edges = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    pieces = [wire[start:end] for start, end in pairwise(edges)]
    single = [wire[at : at + 1] for at in range(min(len(wire), 2_000))]
    assert run(pieces) == run([wire]) == run([*single, wire[2_000:]])


@given(conversations())
def test_any_frames_end_in_a_result_or_a_named_error(wire: bytes) -> None:
    """There is at most one end, as the last event; without it there is an error with the operation."""
    events, error = run([wire])
    ends = [event for event in events if isinstance(event, Ended)]
    if error is None:
        assert ends == events[-1:]
    else:
        assert ASKED in error
        assert not ends
    assert all(event.data for event in events if isinstance(event, Stdout | Stderr))


@given(st.lists(st.binary(min_size=1, max_size=70_000), max_size=5))
def test_messages_to_stdin_are_one_frame_each(sent: list[bytes]) -> None:
    """Each message is one masked, unfragmented binary frame, since the server ignores FIN."""
    framing, protocol = Framing(ASKED), machine(stdin=True)
    wire = b"".join(framing.message(protocol.send(data)) for data in sent)
    wire += framing.message(protocol.close_stdin())
    expected = [(2, True, b"\x00" + data) for data in sent]
    assert client_frames(wire) == [*expected, (2, True, b"\xff\x00")]
