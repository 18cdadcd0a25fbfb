"""What the remote scripts print, and how their output is parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from senro.domain.text.printable import printable
from senro.domain.transfer.compression import PACKED, Coding, codings
from senro.domain.tree.paths import text

MISSING_PROGRAM = 127
"""The exit code of a shell for a program that the image does not have."""

MISSING_WORDS = "senro: the image has no"
"""What a script prints before the name of a missing program."""

HAS_WORD, SOCKET_WORD, MEMBERS_WORD = "senro-has", "senro-socket", "senro-members"
"""The first words of the lines that the scripts print."""

HELPER_ADVICE = "name an image that has sh, tar and mkfifo as helper= of k8s.Pod(...), to transfer its workspaces"
"""What to do about an image that cannot transfer workspaces itself."""

_NUMBER = re.compile(rb"\d{1,9}")
"""A count. The step's processes can write to the same stderr, so a longer number is not parsed."""

_LONGEST_HAS = len(HAS_WORD) + sum(len(coding) + 1 for coding in PACKED)


def missing_program(stderr: bytes) -> str | None:
    """The program that a script which exited with `MISSING_PROGRAM` did not find; None if its stderr names none."""
    for line in stderr.decode("utf-8", "replace").splitlines():
        if line.startswith(f"{MISSING_WORDS} "):
            return line.removeprefix(f"{MISSING_WORDS} ")
    return None


def missing_program_message(image: str, program: str) -> str:
    """A sentence for people about an image that lacks one of the three programs."""
    return f"the image {image} has no {program}; {HELPER_ADVICE}"


def proof_line(nonce: str) -> bytes:
    """What the staging script prints once every mount is filled (docs/design/attempt.md#proof-line)."""
    return f"senro-staged {nonce}\n".encode()


@dataclass(frozen=True, slots=True)
class StagingProof:
    """What the stdout of the staging script has shown so far.

    `nonce`: the attempt's nonce, which the proof line contains.
    `seen`: the beginning of a line that has not ended yet, as much of it as can matter.
    `proven`: whether the proof line has come.
    `has`: the compression programs that the image has, None until the script has printed them.
    """

    nonce: str
    seen: bytes = b""
    proven: bool = False
    has: tuple[Coding, ...] | None = None

    def receive(self, data: bytes) -> StagingProof:
        """Returns the state after more of stdout."""
        if self.proven:
            return self
        *lines, rest = (self.seen + data).split(b"\n")
        wanted = proof_line(self.nonce)[:-1]
        has = self.has
        for line in lines:
            if has is None and line.startswith(HAS_WORD.encode()):
                has = codings(line)
        return StagingProof(self.nonce, rest[: max(len(wanted), _LONGEST_HAS) + 1], wanted in lines, has)


@dataclass(frozen=True, slots=True)
class RemoteCount:
    """What the reading script counted (docs/design/transfers.md#member-count).

    `members`: the members of the archive, without the roots of the mounts.
    `sockets`: the sockets, which tar leaves out.
    `named`: the paths of some of the sockets.
    """

    members: int
    sockets: int = 0
    named: tuple[str, ...] = ()


def remote_count(stderr: bytes) -> RemoteCount | None:
    """Parses the stderr of the reading script; None if no line of it has the count."""
    found, named = None, []
    for line in stderr.split(b"\n")[:-1]:
        word, _, rest = line.partition(b" ")
        numbers = rest.split(b" ")
        if word == SOCKET_WORD.encode():
            named.append(printable(text(rest)))
        elif word == MEMBERS_WORD.encode() and len(numbers) == 2 and all(map(_NUMBER.fullmatch, numbers)):
            found = numbers
    return None if found is None else RemoteCount(int(found[0]), int(found[1]), tuple(named))
