"""The scripts by which a workspace enters a pod and leaves it, and what proves that it did.

Both run under the image's own `sh`, `tar` and `mkfifo`, GNU's or busybox'. Every redirection ends before the script
does: a command that closes its stdout or stderr has its stdin closed by containerd (facts/measured.md).
"""

from __future__ import annotations

from dataclasses import dataclass

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

143 and not 0, so that a pod that is evicted ends Failed, with its reason (design.md section 4).
"""

MISSING_PROGRAM = 127
"""What a shell exits with for a program that the image does not have."""


def sentinel_name(nonce: str) -> str:
    """The name of the archive's last member, in the first mount; a workspace cannot hold it by accident."""
    return SENTINEL_PREFIX + nonce


def staging_command(mounts: int, nonce: str) -> tuple[str, ...]:
    """The command of the one exec that fills the volumes `0` to `mounts - 1` of `senro-stage` from its stdin.

    It ends what an earlier try left running, waits for the fifo, clears what that try left behind, unpacks, reads its
    input to the end whatever tar did (a command that stops reading leaves the exec standing still: recording
    `transfers-broken`), checks for the sentinel and removes it, prints the proof line, and only then releases the
    container.
    """
    return ("sh", "-c", _STAGING, "senro-stage", str(mounts), sentinel_name(nonce), nonce)


_STAGING = f"""
LC_ALL=C; export LC_ALL
n=$1; sentinel=$2; nonce=$3; child=
exec 3<&0
run() {{ "$@" <&3 & child=$!; echo "$$ $child" > {CONTROL_MOUNT}/try; wait "$child"; }}
fail() {{ cat >/dev/null; exit "$1"; }}
if [ -f {CONTROL_MOUNT}/try ]; then
  read -r parent child < {CONTROL_MOUNT}/try
  for pid in $parent $child; do
    if [ "$pid" != "$$" ]; then kill -9 "$pid" 2>/dev/null; fi
  done
  sleep 0.2 2>/dev/null || sleep 1
fi
echo "$$" > {CONTROL_MOUNT}/try
while [ ! -p {CONTROL_MOUNT}/go ]; do sleep 0.05 2>/dev/null || sleep 1; done
command -v tar >/dev/null || {{ echo "senro: the image has no tar" >&2; fail {MISSING_PROGRAM}; }}
i=0
while [ "$i" -lt "$n" ]; do
  for f in {VOLUMES_MOUNT}/"$i"/* {VOLUMES_MOUNT}/"$i"/.[!.]* {VOLUMES_MOUNT}/"$i"/..?*; do
    if [ -e "$f" ] || [ -L "$f" ]; then run rm -rf -- "$f" || fail 1; fi
  done
  i=$((i+1))
done
run tar -x -m -o -f - -C {VOLUMES_MOUNT}
rc=$?
cat >/dev/null
if [ "$rc" -ne 0 ]; then echo "senro: tar exited $rc" >&2; exit "$rc"; fi
if [ ! -f {VOLUMES_MOUNT}/0/"$sentinel" ]; then echo "senro: the archive was cut" >&2; exit 1; fi
rm -f {VOLUMES_MOUNT}/0/"$sentinel" || exit 1
echo "senro-staged $nonce"
echo go > {CONTROL_MOUNT}/go
"""
"""An earlier try may still be at work when its connection was cut: it could release the step while this one clears.
So its shell and that shell's child are killed first. They cannot be waited for: PID 1 reaps no orphans, and a zombie
answers `kill` for ever. `&` gives a child /dev/null for its stdin, hence the copy on 3."""


def proof_line(nonce: str) -> bytes:
    """What the staging prints when every mount is filled. With it, Success, 137 or a lost status are all fine."""
    return f"senro-staged {nonce}\n".encode()


def reading_command(indexes: tuple[int, ...]) -> tuple[str, ...]:
    """The command of the one exec that reads the volumes `indexes` of `senro-io` back as one tar on its stdout.

    A file that changes while it is read makes tar exit 1, which is told as a failure: nothing of a step runs any more
    when it is read, so something else is at work. The member count follows on stderr.
    """
    return ("sh", "-c", _READING, "senro-io", *(str(index) for index in indexes))


_READING = f"""
LC_ALL=C; export LC_ALL
cd {VOLUMES_MOUNT} || exit 1
command -v tar >/dev/null || {{ echo "senro: the image has no tar" >&2; exit {MISSING_PROGRAM}; }}
tar -c -f - "$@"
rc=$?
if [ "$rc" -ne 0 ]; then echo "senro: tar exited $rc" >&2; exit "$rc"; fi
count=0
members() {{
  for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -S "$f" ] || {{ [ ! -e "$f" ] && [ ! -L "$f" ]; }}; then continue; fi
    count=$((count+1))
    if [ -d "$f" ] && [ ! -L "$f" ]; then members "$f"; fi
  done
}}
for root in "$@"; do members "$root"; done
echo "senro-members $count" >&2
"""
"""Members are counted by the shell alone: `find` is missing from many images, and a name may hold a newline."""


@dataclass(frozen=True, slots=True)
class StagingProof:
    """What a staging's stdout has shown so far; `proven` once the proof line came, whole and alone on its line."""

    nonce: str
    seen: bytes = b""
    proven: bool = False

    def receive(self, data: bytes) -> StagingProof:
        """The proof after more of stdout. At most the last line is kept, and of that no more than the proof needs."""
        if self.proven:
            return self
        lines = (self.seen + data).split(b"\n")
        wanted = proof_line(self.nonce)[:-1]
        proven = wanted in lines[:-1]
        return StagingProof(self.nonce, lines[-1][: len(wanted) + 1], proven)


def member_count(stderr: bytes) -> int | None:
    """The members that the far side counted, without the roots; None where no line of stderr says so."""
    for line in stderr.split(b"\n")[:-1]:
        word, _, number = line.partition(b" ")
        if word == b"senro-members" and number.isdigit():
            return int(number)
    return None
