"""What the remote scripts print is parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.transfer.replies import (
    HELPER_ADVICE,
    RemoteCount,
    StagingProof,
    missing_program,
    missing_program_message,
    proof_line,
    remote_count,
)

NONCE = "00ff00ff00ff00ff"
PROOF = proof_line(NONCE)


def cuts(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """The data in any pieces."""
    places = st.lists(st.integers(0, len(data)), max_size=5).map(sorted)
    return places.map(lambda at: [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)])


@given(st.sampled_from([b"", b"noise\n", b"more\nnoise\n", b"senro-staged 0\n"]), st.binary(max_size=9), st.data())
def test_the_proof_line_in_any_pieces(before: bytes, after: bytes, data: st.DataObject) -> None:
    """The proof line counts in any pieces, whatever precedes and follows it, and for ever."""
    proof = StagingProof(NONCE)
    for piece in data.draw(cuts(before + PROOF + after)):
        proof = proof.receive(piece)
    assert proof.proven
    assert proof.receive(b"anything").proven


@given(
    st.sampled_from(
        [
            PROOF[:-1],
            PROOF[:-2] + b"\n",
            b"x" + PROOF,
            b" " + PROOF,
            PROOF[:-1] + b"\r\n",
            PROOF[:-1] + b"0\n",
            proof_line("0" * 16),
            PROOF[:5] + b"\n" + PROOF[5:],
            b"y" * 5000 + PROOF,
        ]
    ),
    st.data(),
)
def test_nothing_else_is_a_proof(printed: bytes, data: st.DataObject) -> None:
    """Another nonce, and a line that is longer, shorter or not ended, prove nothing."""
    proof = StagingProof(NONCE)
    for piece in data.draw(cuts(printed)):
        proof = proof.receive(piece)
        assert len(proof.seen) <= len(PROOF) + 1
    assert not proof.proven


@pytest.mark.parametrize(
    ("stderr", "count"),
    [
        (b"senro-members 12 0\n", RemoteCount(12)),
        (b"tar: 0/s: socket ignored\nsenro-socket 0/s\nsenro-members 0 1\n", RemoteCount(0, 1, ("0/s",))),
        (b"senro-socket a\nsenro-members 9 9\nsenro-members 0 1\n", RemoteCount(0, 1, ("a",))),
        (b"", None),
        (b"senro-members 12 0", None),
        (b"senro-members 12\n", None),
        (b"senro-members\n", None),
        (b"senro-members -1 0\n", None),
        (b"senro-members " + b"9" * 5000 + b" 0\n", None),
        (b"senro-members 1 " + b"9" * 5000 + b"\n", None),
        (b"senro-members 1 2 3\n", None),
        (b"xsenro-members 1 0\n", None),
    ],
)
def test_the_member_count(stderr: bytes, count: RemoteCount | None) -> None:
    """The last complete line with two numbers counts; a newline in a socket's name cannot imitate it."""
    assert remote_count(stderr) == count


def test_the_missing_program() -> None:
    """Only the script's own line names a missing program."""
    assert missing_program(b"sh: warning\nsenro: the image has no tar\n") == "tar"
    assert missing_program(b"sh: tar: not found\n") is None
    assert missing_program_message("an/image", "tar") == f"the image an/image has no tar; {HELPER_ADVICE}"
