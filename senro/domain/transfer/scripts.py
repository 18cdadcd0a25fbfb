"""The scripts by which a workspace enters a pod and leaves it, and what proves that it did.

Both run under the image's own `sh`, `tar` and `mkfifo`, GNU's or busybox'. Every redirection ends before the script
does: a command that closes its stdout or stderr has its stdin closed by containerd
(docs/design/measurements.md#a-closed-output-closes-stdin).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from senro.domain.text.printable import printable
from senro.domain.transfer.compression import PACKED, Coding, codings
from senro.domain.tree.paths import text

STEP_CONTAINER = "step"
STAGE_CONTAINER = "senro-stage"
IO_CONTAINER = "senro-io"

CONTROL_MOUNT = "/senro/ctl"
VOLUMES_MOUNT = "/senro/ws"
SECRETS_MOUNT = "/run/senro/secrets"

SENTINEL_PREFIX = ".senro-whole-"
"""Begins the name of the archive's last member, which proves that tar read to the end. The attempt's nonce ends it."""

STAGE_COMMAND = (
    "sh",
    "-c",
    f"trap 'exit 143' TERM; mkfifo {CONTROL_MOUNT}/go && {{ read _ < {CONTROL_MOUNT}/go & wait $!; }}",
)
"""The command of `senro-stage`: it waits for one line on a fifo, for as long as it takes, and ends with 0 only then.

`wait` is what a signal can interrupt: as PID 1 without a trap it would sit out the whole grace of a deletion.
"""

IO_COMMAND = ("sh", "-c", "trap 'exit 143' TERM; while :; do sleep 3600 & wait $!; done")
"""The command of `senro-io`: it lives until the pod is deleted and exits 143 at once on TERM.

143 and not 0, so that a pod that is evicted ends Failed, with its reason
(docs/design/attempt.md#exit-code-of-senro-io).
"""

MISSING_PROGRAM = 127
"""What a shell exits with for a program that the image does not have."""

MISSING_WORDS = "senro: the image has no"
"""Stands before the program's name where one is missing."""

HAS_WORD, SOCKET_WORD, MEMBERS_WORD = "senro-has", "senro-socket", "senro-members"
"""The first words of the lines that the scripts say."""

NAMED_SOCKETS = 20
"""How many sockets are named; all are counted."""

_HAS = HAS_WORD.encode()
_NUMBER = re.compile(rb"\d{1,9}")  # a step may write what it likes there
_LONGEST_HAS = len(HAS_WORD) + sum(len(coding) + 1 for coding in PACKED)


HELPER_ADVICE = "name an image that has sh, tar and mkfifo as helper= of k8s.Pod(...), to carry the workspaces for it"
"""What to do about an image that cannot carry workspaces itself."""


def missing_program(stderr: bytes) -> str | None:
    """The program that a script did not find, by what it said before it ended with `MISSING_PROGRAM`."""
    for line in stderr.decode("utf-8", "replace").splitlines():
        if line.startswith(f"{MISSING_WORDS} "):
            return line.removeprefix(f"{MISSING_WORDS} ")
    return None


def missing_program_message(image: str, program: str) -> str:
    """The sentence about an image without one of the three programs."""
    return f"the image {image} has no {program}; {HELPER_ADVICE}"


def sentinel_name(nonce: str) -> str:
    """The name of the archive's last member, in the first mount; a workspace cannot hold it by accident."""
    return SENTINEL_PREFIX + nonce


def staging_command(mounts: int, nonce: str) -> tuple[str, ...]:
    """The command of the one exec that fills the volumes `0` to `mounts - 1` of `senro-stage` from its stdin.

    It says first which programs it has to unpack with, ends what an earlier try left running, waits for the fifo,
    clears what that try left behind, reads a line that names the coding (`plain`, `gzip`, `zstd`), unpacks, reads its
    input to the end whatever tar did (a command that stops reading leaves the exec standing still: recording
    `transfers-broken`), checks for the sentinel and removes it, prints the proof line, and only then releases the
    container.
    """
    return ("sh", "-c", _STAGING, "senro-stage", str(mounts), sentinel_name(nonce), nonce)


def coding_line(coding: Coding) -> bytes:
    """What stands before the archive on the staging's stdin."""
    return f"{coding}\n".encode()


_STAGING = f"""
LC_ALL=C; export LC_ALL
umask 0
n=$1; sentinel=$2; nonce=$3; has=
for program in gzip zstd; do
  if command -v "$program" >/dev/null; then has="$has $program"; fi
done
echo "{HAS_WORD}$has"
exec 3<&0
at_work() {{ echo "$$${{1:+ $*}}" > {CONTROL_MOUNT}/try; }}
run() {{ "$@" <&3 & child=$!; at_work "$child"; wait "$child"; }}
fail() {{ cat >/dev/null; exit "$1"; }}
if [ -f {CONTROL_MOUNT}/try ]; then
  read -r pids < {CONTROL_MOUNT}/try
  for pid in $pids; do
    if [ "$pid" != "$$" ]; then kill -9 "$pid" 2>/dev/null; fi
  done
  sleep 0.2 2>/dev/null || sleep 1
fi
at_work
while [ ! -p {CONTROL_MOUNT}/go ]; do sleep 0.05 2>/dev/null || sleep 1; done
command -v tar >/dev/null || {{ echo "{MISSING_WORDS} tar" >&2; fail {MISSING_PROGRAM}; }}
i=0
while [ "$i" -lt "$n" ]; do
  for f in {VOLUMES_MOUNT}/"$i"/* {VOLUMES_MOUNT}/"$i"/.[!.]* {VOLUMES_MOUNT}/"$i"/..?*; do
    if [ -e "$f" ] || [ -L "$f" ]; then run rm -rf -- "$f" || fail 1; fi
  done
  i=$((i+1))
done
read -r coding || {{ echo "senro: nothing was sent" >&2; fail 1; }}
if [ "$coding" = plain ]; then
  run tar -x -m -o -f - -C {VOLUMES_MOUNT}
  rc=$?
else
  rm -f {CONTROL_MOUNT}/raw
  mkfifo {CONTROL_MOUNT}/raw || fail 1
  "$coding" -d -c <&3 > {CONTROL_MOUNT}/raw &
  unpacker=$!
  tar -x -m -o -f - -C {VOLUMES_MOUNT} < {CONTROL_MOUNT}/raw &
  child=$!
  at_work "$unpacker" "$child"
  wait "$child"
  rc=$?
  wait "$unpacker"
  code=$?
  if [ "$rc" -eq 0 ]; then rc=$code; fi
fi
cat >/dev/null
if [ "$rc" -ne 0 ]; then echo "senro: tar exited $rc" >&2; exit "$rc"; fi
if [ ! -f {VOLUMES_MOUNT}/0/"$sentinel" ]; then echo "senro: the archive was cut" >&2; exit 1; fi
rm -f {VOLUMES_MOUNT}/0/"$sentinel" || exit 1
echo "senro-staged $nonce"
echo go > {CONTROL_MOUNT}/go
"""
"""An earlier try may still be at work when its connection was cut: it could release the step while this one clears.
So its shell and that shell's children are killed first. They cannot be waited for: PID 1 reaps no orphans, and a zombie
answers `kill` for ever. `&` gives a child /dev/null for its stdin, hence the copy on 3. A shell's `read` takes one byte
at a time, so the archive begins right after the coding's line. umask 0: what the archive says of modes is what holds.
"""


def proof_line(nonce: str) -> bytes:
    """What the staging prints when every mount is filled. With it, Success, 137 or a lost status are all fine."""
    return f"senro-staged {nonce}\n".encode()


def reading_command(
    indexes: tuple[int, ...], *, coding: Coding = "plain", excludes: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The command of the one exec that reads the volumes `indexes` of `senro-io` back as one tar on its stdout.

    `excludes` are names, at most with a `*` at one end (`domain.excludes.far_excludes`): they stay behind at any depth.
    A file that changes while it is read makes tar exit 1, which is told as a failure: nothing of a step runs any more
    when it is read, so something else is at work. The member count follows on stderr, sockets named before it.
    """
    omitted = tuple(f"--exclude={name}" for name in excludes)
    return ("sh", "-c", _READING, "senro-io", coding, *omitted, *(str(index) for index in indexes))


_READING = f"""
LC_ALL=C; export LC_ALL
coding=$1; shift
cd {VOLUMES_MOUNT} || exit 1
command -v tar >/dev/null || {{ echo "{MISSING_WORDS} tar" >&2; exit {MISSING_PROGRAM}; }}
case $1 in --exclude=*)
  if ! tar -c -f /dev/null "$1" /dev/null >/dev/null 2>&1; then
    for word in "$@"; do shift; case $word in --exclude=*) ;; *) set -- "$@" "$word" ;; esac; done
  fi
esac
pack() {{
  if [ "$coding" = plain ]; then tar -c -f - "$@"; return; fi
  exec 4>&1
  codes=$( {{ {{ tar -c -f - "$@" 3>&- 4>&-; echo $? >&3; }} | {{ "$coding" -1 -c >&4 3>&-; echo $? >&3; }}; }} 3>&1 )
  rc=0
  for code in $codes; do if [ "$code" -ne 0 ]; then rc=$code; fi; done
  return "$rc"
}}
tell() {{ printf '%s\\n' "$1"; }}
named() {{ tell "{SOCKET_WORD} $1"; }}
command -v printf >/dev/null || {{
  tell() {{ echo "$1"; }}
  named() {{ case $1 in *\\\\*) ;; *) tell "{SOCKET_WORD} $1" ;; esac; }}
}}
patterns=
newline='
'
for word in "$@"; do
  case $word in --exclude=*) patterns="$patterns${{word#--exclude=}}$newline" ;; esac
done
left_out() {{
  [ -n "$patterns" ] || return 1
  name=${{1##*/}}; found=1
  set -f; IFS=$newline
  for pattern in $patterns; do case $name in $pattern) found=0 ;; esac; done
  set +f; unset IFS
  return $found
}}
count=0; sockets=0
members() {{
  for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if left_out "$f"; then continue; fi
    if [ -f "$f" ]; then count=$((count+1)); continue; fi
    if [ ! -e "$f" ] && [ ! -L "$f" ]; then continue; fi
    if [ -S "$f" ] && [ ! -L "$f" ]; then
      sockets=$((sockets+1))
      if [ "$sockets" -le {NAMED_SOCKETS} ]; then named "$f"; fi
      continue
    fi
    count=$((count+1))
    if [ -d "$f" ] && [ ! -L "$f" ]; then members "$f"; fi
  done
}}
tell_members() {{
  for root in "$@"; do case $root in --exclude=*) ;; *) members "$root" ;; esac; done
  tell "{MEMBERS_WORD} $count $sockets"
}}
exec 5>&1
counted=$(
  tell_members "$@" 5>&- &
  pack "$@" >&5 5>&-
  rc=$?
  if [ "$rc" -ne 0 ]; then kill $! 2>/dev/null; fi
  exit "$rc"
)
rc=$?
if [ "$rc" -ne 0 ]; then echo "senro: tar exited $rc" >&2; exit "$rc"; fi
tell "$counted" >&2
"""
"""A busybox tar may be built without --exclude: then all of it crosses, and is left out where it comes in. Members
are counted by the shell alone, while tar is at work: `find` is missing from many images, and a name may hold a newline.
Most are files, so that is asked first. A tar that fails, or whose reader has gone, ends the count; what it told comes
out of the command substitution when both are done, while the archive goes out through 5. The exit codes of a pipe's two
ends come out through 3, in the same way, its archive through 4. Some shells have no printf, and an echo that takes a
backslash for more than it is: names with one are then counted alone."""


@dataclass(frozen=True, slots=True)
class StagingProof:
    """What a staging's stdout has shown so far; `proven` once the proof line came, whole and alone on its line.

    `has` is what the far side has to unpack with; None until it has said so.
    """

    nonce: str
    seen: bytes = b""
    proven: bool = False
    has: tuple[Coding, ...] | None = None

    def receive(self, data: bytes) -> StagingProof:
        """The proof after more of stdout. At most the last line is kept, and of that no more than is needed."""
        if self.proven:
            return self
        *lines, rest = (self.seen + data).split(b"\n")
        wanted = proof_line(self.nonce)[:-1]
        has = self.has
        for line in lines:
            if has is None and line.startswith(_HAS):
                has = codings(line)
        return StagingProof(self.nonce, rest[: max(len(wanted), _LONGEST_HAS) + 1], wanted in lines, has)


@dataclass(frozen=True, slots=True)
class RemoteCount:
    """What the far side counted: members without the roots, and sockets, which tar passes over, with some names."""

    members: int
    sockets: int = 0
    named: tuple[str, ...] = ()


def remote_count(stderr: bytes) -> RemoteCount | None:
    """What a read-back's stderr says; None where no line of it gives the count."""
    found, named = None, []
    for line in stderr.split(b"\n")[:-1]:
        word, _, rest = line.partition(b" ")
        numbers = rest.split(b" ")
        if word == SOCKET_WORD.encode():
            named.append(printable(text(rest)))
        elif word == MEMBERS_WORD.encode() and len(numbers) == 2 and all(map(_NUMBER.fullmatch, numbers)):
            found = numbers
    return None if found is None else RemoteCount(int(found[0]), int(found[1]), tuple(named))
