"""The embedded cluster's parts that need no cluster: expansion, quantities, frames, records, paths, patches."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.devcluster.apiserver.patch import merge_patch
from senro.devcluster.apiserver.quantities import parse_quantity
from senro.devcluster.apiserver.schema import SCHEMAS, unknown_fields, wrong_type
from senro.devcluster.apiserver.websocket import BrokenFrameError, Frame, FrameReader
from senro.devcluster.clock import SystemClock
from senro.devcluster.containers.log import ContainerLog, LogFilter, tail
from senro.devcluster.containers.process_runtime import PathMap
from senro.devcluster.containers.runtime import ContainerConfig, Mount
from senro.devcluster.expansion import expand

dollars = st.text(alphabet="$(){}AB x", max_size=30)


@given(dollars)
def test_doubling_every_dollar_is_a_complete_escape(text: str) -> None:
    """Whatever variables there are, the doubled text expands to the text.

    See docs/design/api-rules.md#escape-by-doubling.
    """
    assert expand(text.replace("$", "$$"), {"A": "a", "B": "$(A)", "": "empty"}) == text


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A) $$(A) $(NOPE) $$ $HOME", "a $(A) $(NOPE) $ $HOME"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$($(A))", "$($(A))"),
        ("$(B)", "$(A)"),
        ("$(A", "$(A"),
        ("$(no $(A)", "$(no $(A)"),
        ("$", "$"),
        ("x$", "x$"),
        ("$(echo $$)", "$(echo $$)"),
        ("$()", "$()"),
        ("$x$(A)", "$xa"),
    ],
)
def test_expansion_is_the_kubelets(text: str, expanded: str) -> None:
    """One pass, unknown names left alone, nothing collapsed inside a reference."""
    assert expand(text, {"A": "a", "B": "$(A)"}) == expanded


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("12E3", Fraction(12_000)),
        ("12E", Fraction(12 * 10**18)),
        ("1e-3", Fraction(1, 1000)),
        ("5k", Fraction(5000)),
        (7, Fraction(7)),
        ("256Mb", None),
        ("1K", None),
        ("1mi", None),
        (" 1", None),
        ("", None),
        ("1.2.3", None),
        (True, None),
        ([], None),
    ],
)
def test_quantities_are_read_exactly(text: object, value: Fraction | None) -> None:
    """Suffixes, exponents, and what is none (docs/design/api-rules.md#quantities)."""
    assert parse_quantity(text) == value


def masked(opcode: int, payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    head = bytes((0x80 | opcode,))
    if size < 126:
        head += bytes((0x80 | size,))
    elif size < 65_536:
        head += bytes((0x80 | 126,)) + size.to_bytes(2, "big")
    else:
        head += bytes((0x80 | 127,)) + size.to_bytes(8, "big")
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 8, 9]), st.binary(max_size=300)), max_size=5),
    st.binary(min_size=4, max_size=4),
    st.integers(1, 50),
)
def test_frames_come_out_whole_however_they_are_cut(frames: list[tuple[int, bytes]], mask: bytes, step: int) -> None:
    """Any split of a client's bytes gives its frames, unmasked, in order."""
    wire = b"".join(masked(opcode, payload, mask) for opcode, payload in frames)
    reader = FrameReader()
    found = []
    for position in range(0, len(wire), step):
        reader.feed(wire[position : position + step])
        while (frame := reader.next()) is not None:
            found.append(frame)
    assert found == [Frame(opcode, payload) for opcode, payload in frames]


@pytest.mark.parametrize(("size", "width"), [(126, 2), (65_535, 2), (65_536, 8), (200_000, 8)])
def test_longer_frames_have_longer_lengths(size: int, width: int) -> None:
    """Two and eight bytes of length."""
    wire = masked(2, bytes(size), b"abcd")
    assert len(wire) == 2 + width + 4 + size
    assert FrameReader(wire).next() == Frame(2, bytes(size))


def test_frames_that_may_not_be() -> None:
    """Unmasked is 1002; over 32 MiB the connection just ends."""
    with pytest.raises(BrokenFrameError) as unmasked:
        FrameReader(b"\x82\x01x").next()
    with pytest.raises(BrokenFrameError) as oversized:
        FrameReader(b"\x82\xff" + (33_554_433).to_bytes(8, "big")).next()
    assert (unmasked.value.code, oversized.value.code) == (1002, 0)


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=40)), max_size=20))
def test_each_stream_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, bytes]]
) -> None:
    """However the writes are cut, the records of one stream hold its bytes, in order."""
    log = ContainerLog(tmp_path_factory.mktemp("log") / "0.log", SystemClock())
    for stream, data in writes:
        log.write(stream, data)
    for stream in ("stdout", "stderr"):
        log.end_stream(stream)
    records = log.read_all()
    log.close()
    for stream in ("stdout", "stderr"):
        own = b"".join(
            record + b"\n" for record in records.split(b"\n")[:-1] if record.split(b" ")[1] == stream.encode()
        )
        written = b"".join(data for wrote, data in writes if wrote == stream)
        assert LogFilter(timestamps=False).apply(own) == written


def test_records_are_counted_from_the_end() -> None:
    """The last so many, none for 0, all for more than there are."""
    records = b"a\nb\nc\n"
    assert [tail(records, count) for count in (0, 1, 2, 9)] == [b"", b"c\n", b"b\nc\n", records]
    assert tail(b"", 3) == b""


def path_map(folder: Path) -> PathMap:
    mounts = (Mount(folder / "w", "/src", read_only=False), Mount(folder / "s", "/src/sub", read_only=True))
    return PathMap(
        ContainerConfig(
            name="step", folder=folder / "c", argv=("sh",), env={}, workdir="/src", hostname="h", mounts=mounts
        )
    )


@pytest.mark.parametrize(
    ("text", "mapped"),
    [
        ("/src", "{w}"),
        ("cd /src; ls /src/a", "cd {w}; ls {w}/a"),
        ("/src/sub/x:/src/subtle", "{s}/x:{w}/subtle"),
        ("/srcs /other/src x/src /src.bak /src-1", "/srcs /other/src x/src /src.bak /src-1"),
        ("--out=/src", "--out={w}"),
        ("'/src'", "'{w}'"),
    ],
)
def test_paths_are_mapped_whole(tmp_path: Path, text: str, mapped: str) -> None:
    """A mount path is mapped where it is a path of its own, the longest first."""
    places = {"w": tmp_path / "w", "s": tmp_path / "s"}
    assert path_map(tmp_path).map(text) == mapped.format(**places)


def test_a_merge_patch_is_rfc_7386() -> None:
    """Null deletes, objects merge, everything else is replaced."""
    target = {"a": {"b": 1, "c": 2}, "d": [1, 2], "e": "f"}
    patch = {"a": {"b": None, "x": {"y": None}}, "d": [3], "e": None}
    assert merge_patch(target, patch) == {"a": {"c": 2, "x": {}}, "d": [3]}
    assert merge_patch("text", {"a": 1}) == {"a": 1}


def test_unknown_fields_and_wrong_types_are_found_by_path() -> None:
    """Through lists and maps; labels may be anything, containers may not."""
    pod = {
        "metadata": {"labels": {"any/thing": "x"}, "lables": {}},
        "spec": {"containers": [{"name": "a"}, {"nmae": "b"}], "terminationGracePeriodSeconds": True},
    }
    assert unknown_fields(pod, SCHEMAS["Pod"]) == ["metadata.lables", "spec.containers[1].nmae"]
    assert wrong_type(pod, SCHEMAS["Pod"]) == (
        "json: cannot unmarshal bool into Go struct field spec.terminationGracePeriodSeconds of type int"
    )
