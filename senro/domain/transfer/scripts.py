"""The scripts that unpack an archive into a pod's volumes and read them back, and the arguments that they take.

Both run under the `sh`, `tar` and `mkfifo` of the image, GNU's or busybox'. They keep their outputs open to their end
(docs/design/transfers.md#outputs-stay-open). `replies` parses what they print.
"""

from __future__ import annotations

from senro.domain.transfer.compression import Coding
from senro.domain.transfer.containers import CONTROL_MOUNT, VOLUMES_MOUNT
from senro.domain.transfer.replies import HAS_WORD, MEMBERS_WORD, MISSING_PROGRAM, MISSING_WORDS, SOCKET_WORD

SENTINEL_PREFIX = ".senro-whole-"
"""The beginning of the name of the archive's last member (docs/design/transfers.md#sentinel)."""

NAMED_SOCKETS = 20
"""How many sockets the reading script names; it counts all."""


def sentinel_name(nonce: str) -> str:
    """The name of the archive's last member, which is in the first mount."""
    return SENTINEL_PREFIX + nonce


def coding_line(coding: Coding) -> bytes:
    """What precedes the archive on the stdin of the staging script."""
    return f"{coding}\n".encode()


def staging_command(mounts: int, nonce: str) -> tuple[str, ...]:
    """The command of the exec that fills the volumes `0` to `mounts - 1` of `senro-stage` from its stdin.

    In order, the script:

    1. prints the compression programs that the image has;
    2. kills what an earlier try left running, waits for the fifo, and clears the volumes;
    3. reads the coding from a line (`plain`, `gzip`, `zstd`), unpacks the archive behind it, and reads its input to the
       end whatever tar did (docs/design/transfers.md#input-is-read-to-its-end);
    4. checks for the sentinel, removes it, prints the proof line, and releases the container.
    """
    return ("sh", "-c", _STAGING, "senro-stage", str(mounts), sentinel_name(nonce), nonce)


def reading_command(
    indexes: tuple[int, ...], *, coding: Coding = "plain", excludes: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The command of the exec that writes the volumes `indexes` of `senro-io` to its stdout as one archive.

    `excludes` are names that are left out at any depth, with at most a `*` at one end
    (`senro.domain.tree.excludes.remote_excludes`). The script prints the sockets and the member count on stderr. It
    fails if tar does, and so if a file changes meanwhile: no process of the step runs any more by then.
    """
    omitted = tuple(f"--exclude={name}" for name in excludes)
    return ("sh", "-c", _READING, "senro-io", coding, *omitted, *(str(index) for index in indexes))


# An earlier try may still be at work after its connection was cut: it could release the step while this one clears. So
# its shell and that shell's children are killed first. They cannot be waited for: PID 1 reaps no orphans, and `kill`
# succeeds on a zombie for ever. A shell gives a child in the background /dev/null as its stdin, hence the copy on 3. A
# shell's `read` takes one byte at a time, so the archive begins right after the line with the coding. `umask 0` makes
# the modes in the archive hold.
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


# A busybox tar may be built without --exclude: then everything is sent, and dropped on arrival. The shell alone counts
# the members, while tar is at work: many images lack `find`, and a name may contain a newline. Most members are files,
# so that is checked first. If tar fails or its reader is gone, the count is ended. The count comes out of the command
# substitution once both are done, while the archive goes out through 5. The exit codes of both ends of a pipe come out
# through 3 in the same way, and the archive of that pipe through 4. Some shells have no printf, and an `echo` that
# interprets backslashes: then a socket whose name contains one is counted and not named.
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
