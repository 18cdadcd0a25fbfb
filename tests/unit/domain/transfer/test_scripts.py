"""The remote scripts run under the shells and tars of images, with paths of a temporary folder.

More than 500 lines: both scripts need the same simulated images, which take a hundred of them.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from senro.adapters.fs.coding import Decompressor, make_compressor
from senro.domain.tar.reader import Member
from senro.domain.tar.writer import member_header
from senro.domain.transfer.compression import Coding
from senro.domain.transfer.containers import CONTROL_MOUNT, IO_COMMAND, STAGE_COMMAND, VOLUMES_MOUNT
from senro.domain.transfer.replies import (
    MISSING_PROGRAM,
    RemoteCount,
    proof_line,
    remote_count,
)
from senro.domain.transfer.scripts import SENTINEL_PREFIX, coding_line, reading_command, sentinel_name, staging_command
from senro.domain.tree.tree import Tree
from tests.lib.archives.files import (
    archive,
    directory,
    file,
    link,
    make_folder,
    members,
    names,
    read_events,
    read_folder,
    read_tree,
)

BOUND = 20
"""Seconds after which a script that should have ended is a failure of the test, not of the patience."""

NONCE = "00ff00ff00ff00ff"
BUSYBOX = shutil.which("busybox") or ""
SHELLS = {"dash": shutil.which("dash"), "bash": shutil.which("bash"), "busybox": BUSYBOX}
TOOLS = ("tar", "mkfifo", "rm", "cat", "sleep")
"""All that an image must have beside its shell."""

PACKERS: tuple[Coding, ...] = ("gzip", "zstd")
"""What it may have; busybox has the first alone."""


@dataclass
class Image:
    """A machine with one shell, one tar, the volumes `0` and `1`, and nothing else on its PATH."""

    shell: list[str]
    path: Path
    root: Path
    has: tuple[Coding, ...]
    stage: subprocess.Popen[bytes] = field(init=False)

    @property
    def volumes(self) -> Path:
        return self.root / "ws"

    def command(self, words: tuple[str, ...]) -> list[str]:
        """The command that the image would run for `words`."""
        places = {CONTROL_MOUNT: str(self.root / "ctl"), VOLUMES_MOUNT: str(self.volumes)}
        argv = list(words)
        for place, here in places.items():
            argv = [word.replace(place, here) for word in argv]
        assert argv[0] == "sh"
        return [*self.shell, *argv[1:]]

    def start(self, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command(words),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={"PATH": str(self.path)},
            start_new_session=True,
        )

    @contextmanager
    def running(self, words: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
        """The process while the context is open; its session is killed at the end."""
        process = self.start(words)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what a shell that has ended left behind
            process.communicate(timeout=BOUND)

    def run(self, words: tuple[str, ...], data: bytes = b"") -> tuple[int, bytes, bytes]:
        with self.running(words) as process:
            out, err = process.communicate(data, timeout=BOUND)
            return process.returncode, out, err

    def stage_with(self, data: bytes, mounts: int = 2, coding: Coding = "plain") -> tuple[int, bytes, bytes]:
        """Runs the staging with this archive, compressed; checks the first line that it prints, and removes it."""
        packing = make_compressor(coding)
        if packing is not None:
            data = packing.compress(data) + packing.flush()
        code, out, err = self.run(staging_command(mounts, NONCE), coding_line(coding) + data)
        says = " ".join(("senro-has", *self.has)).encode() + b"\n"
        assert out.startswith(says)
        return code, out[len(says) :], err

    def released(self) -> bool:
        """Whether `senro-stage` has ended well within the bound."""
        return self.stage.wait(timeout=BOUND) == 0


def image_at(tmp_path: Path, shell: str, tar: str) -> Image:
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        real = BUSYBOX if tar == "busybox" else shutil.which(tool)
        (path / tool).symlink_to(str(real))
    has = PACKERS[:1] if tar == "busybox" else tuple(tool for tool in PACKERS if shutil.which(tool))
    for tool in has:
        (path / tool).symlink_to(BUSYBOX if tar == "busybox" else str(shutil.which(tool)))
    for folder in ("ctl", "ws/0", "ws/1"):
        (tmp_path / "root" / folder).mkdir(parents=True)
    start = [str(SHELLS[shell]), "sh"] if shell == "busybox" else [str(SHELLS[shell])]
    return Image(start, path, tmp_path / "root", has)


@pytest.fixture(
    params=[("dash", "gnu"), ("bash", "gnu"), ("busybox", "busybox"), ("dash", "busybox"), ("busybox", "gnu")],
    ids="-".join,
)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Image]:
    """Every shell with every tar, with a running `senro-stage`."""
    shell, tar = request.param
    if not SHELLS[shell] or (tar == "busybox" and not BUSYBOX):
        pytest.skip(f"no {shell} with {tar} tar on this machine")
    made = image_at(tmp_path, shell, tar)
    with made.running(STAGE_COMMAND) as stage:
        made.stage = stage
        yield made


CONTENTS = {"a.txt": b"hello\n", "dir/b": b"x" * 70_000, "-rf": b"", "new\nline": b"\n", ".hidden": b"", "...": b""}
TREE = Tree(
    (
        *(file(path, content, executable=path == "dir/b") for path, content in CONTENTS.items()),
        directory("dir"),
        directory("dir/empty"),
        link("dir/up", "../a.txt"),
        link("dangling", "nowhere"),
    )
)
OTHER = Tree((file("only", b"1"),))
BEFORE_SENTINEL = members(TREE, CONTENTS, 0) + members(OTHER, {"only": b"1"}, 1)
SENTINEL = Tree((file(sentinel_name(NONCE)),))
COMPLETE_REPLY = BEFORE_SENTINEL + archive(SENTINEL, {sentinel_name(NONCE): b""})
STAGING = staging_command(2, NONCE)
PROOF = proof_line(NONCE)


def test_a_complete_archive(image: Image) -> None:
    """The volumes have the two trees and no sentinel, stdout is the proof line, `senro-stage` ends with 0."""
    assert image.stage_with(COMPLETE_REPLY) == (0, PROOF, b"")
    assert image.released()
    assert read_folder(image.volumes / "0") == TREE
    assert read_folder(image.volumes / "1") == OTHER


def test_a_compressed_archive(image: Image) -> None:
    """The script decompresses with a program that it listed."""
    with ExitStack() as stack:
        for coding in image.has:
            assert image.stage_with(COMPLETE_REPLY, coding=coding) == (0, PROOF, b"")
            assert image.released()
            assert read_folder(image.volumes / "0") == TREE
            assert read_folder(image.volumes / "1") == OTHER
            (image.root / "ctl" / "go").unlink()
            image.stage = stack.enter_context(image.running(STAGE_COMMAND))


def test_a_damaged_compressed_archive(image: Image) -> None:
    """An archive that is cut, has a wrong checksum or another format gives no proof and no release."""
    for coding in image.has:
        packing = make_compressor(coding)
        assert packing is not None
        packed = packing.compress(COMPLETE_REPLY) + packing.flush()
        damaged = bytearray(packed)
        damaged[-3] ^= 1
        for data in (b"", packed[: len(packed) // 2], packed[:-1], bytes(damaged), COMPLETE_REPLY):
            code, out, _ = image.run(STAGING, coding_line(coding) + data)
            assert (code != 0, PROOF in out) == (True, False)
    assert image.stage.poll() is None


def test_the_modes_of_the_archive_hold(image: Image) -> None:
    """They do whatever the umask of the image is: a helper unpacks for a user that it does not know."""
    plain = directory("d"), file("f", b""), file("x", b"", executable=True)
    data = b"".join(member_header(0, entry, open_to_all=True) for entry in plain)
    code, out, _ = image.stage_with(data + archive(SENTINEL, {sentinel_name(NONCE): b""}), mounts=1)
    assert (code, out) == (0, PROOF)
    found = [(image.volumes / "0" / name).stat().st_mode & 0o777 for name in ("d", "f", "x")]
    assert found == [0o777, 0o666, 0o777]


def test_an_archive_of_empty_workspaces(image: Image) -> None:
    """An archive with only the sentinel is complete."""
    data = archive(SENTINEL, {sentinel_name(NONCE): b""})
    assert image.stage_with(data, mounts=1) == (0, PROOF, b"")
    assert image.released()
    assert names(image.volumes / "0") == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(BEFORE_SENTINEL, id="between-members"),
        pytest.param(BEFORE_SENTINEL + bytes(1024), id="ended-without-sentinel"),
        pytest.param(BEFORE_SENTINEL[:-512], id="within-content"),
        pytest.param(BEFORE_SENTINEL[:300], id="within-header"),
        pytest.param(archive(OTHER, {"only": b"1"}, 1), id="no-first-mount"),
        pytest.param(b"\xff" * 4096, id="no-archive"),
    ],
)
def test_an_incomplete_archive(image: Image, data: bytes) -> None:
    """Whatever tar does with it: no proof, an exit code other than 0, a message on stderr, no release."""
    code, out, err = image.stage_with(data)
    assert code != 0
    assert out == b""
    assert b"senro: " in err
    assert image.stage.poll() is None


def test_input_is_read_to_its_end(image: Image) -> None:
    """If tar fails at once, the script still reads a MiB more than a pipe holds."""
    code, out, _ = image.stage_with(b"\xff" * 512 + bytes(2**20))
    assert (code != 0, out) == (True, b"")


def test_the_volumes_are_cleared(image: Image) -> None:
    """Files, folders, links and odd names of an earlier try are gone."""
    left = image.volumes / "0"
    (left / "dir").mkdir()
    for name in ("dir/stale", ".x", "..x", "...", "....", "a b", "new\nline", "*", "-rf"):
        (left / name).write_bytes(b"stale")
    (left / ".folder").mkdir()
    (left / ".folder" / "deep").write_bytes(b"stale")
    (left / "dead").symlink_to("nowhere")
    (left / sentinel_name(NONCE)).write_bytes(b"")
    (image.volumes / "1" / ".stale").write_bytes(b"")
    assert image.stage_with(COMPLETE_REPLY) == (0, PROOF, b"")
    assert read_folder(left) == TREE
    assert read_folder(image.volumes / "1") == OTHER


def test_clearing_does_not_follow_links(image: Image) -> None:
    """A link is removed, and not its target."""
    outside = image.root / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"")
    (image.volumes / "0" / "link").symlink_to(outside)
    assert image.stage_with(COMPLETE_REPLY)[0] == 0
    assert names(outside) == ["kept"]


def test_a_second_try(image: Image) -> None:
    """The sentinel of a failed try neither proves nor delays the next one."""
    assert image.stage_with(BEFORE_SENTINEL)[0] != 0
    assert image.stage_with(COMPLETE_REPLY) == (0, PROOF, b"")
    assert image.released()


@pytest.mark.parametrize("fed", [0, 300, len(BEFORE_SENTINEL) - 200], ids=["nothing", "a-header", "nearly-all"])
def test_an_earlier_try_that_waits_for_input_is_killed(image: Image, fed: int) -> None:
    """It neither clears the volumes nor releases the step."""
    with image.running(STAGING) as earlier:
        assert earlier.stdin is not None
        earlier.stdin.write((coding_line("plain") + COMPLETE_REPLY)[:fed])
        earlier.stdin.flush()
        reached(lambda: len((image.root / "ctl" / "try").read_text().split()) == (2 if fed else 1))
        assert image.stage_with(COMPLETE_REPLY) == (0, PROOF, b"")
        assert earlier.wait(timeout=BOUND) in (-signal.SIGKILL, 128 + signal.SIGKILL)
        assert earlier.stdout is not None
        assert earlier.stdout.read().split() == [b"senro-has", *(coding.encode() for coding in image.has)]
    assert image.released()
    assert read_folder(image.volumes / "0") == TREE


def test_an_earlier_try_that_waits_for_the_fifo_is_killed(tmp_path: Path) -> None:
    """Of two tries before `senro-stage` is ready, only the second goes on."""
    image = image_at(tmp_path, "dash", "gnu")
    with image.running(STAGING) as earlier:
        reached(lambda: (image.root / "ctl" / "try").read_text() == f"{earlier.pid}\n")
        with image.running(STAGING) as later:
            assert earlier.wait(timeout=BOUND) == -signal.SIGKILL
            with image.running(STAGE_COMMAND) as image.stage:
                assert later.communicate(coding_line("plain") + COMPLETE_REPLY, timeout=BOUND) == (
                    b" ".join([b"senro-has", *(coding.encode() for coding in image.has)]) + b"\n" + PROOF,
                    b"",
                )
                assert image.released()


def test_a_second_senro_stage_fails(image: Image) -> None:
    """It fails at once, whether the volumes were filled or not."""
    assert image.stage_with(COMPLETE_REPLY) == (0, PROOF, b"")
    assert image.released()
    code, _, err = image.run(STAGE_COMMAND)
    assert code not in {0, MISSING_PROGRAM, 143}
    assert b"go" in err


def test_a_second_senro_stage_after_a_kill_fails(image: Image) -> None:
    """It fails at once, and a later staging cannot release the step."""
    reached((image.root / "ctl" / "go").is_fifo)
    image.stage.kill()
    image.stage.wait(timeout=BOUND)
    assert image.run(STAGE_COMMAND)[0] not in {0, MISSING_PROGRAM, 143}


def reached(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds."""
    deadline = time.monotonic() + BOUND
    while True:
        with suppress(FileNotFoundError):
            if condition():
                return
        assert time.monotonic() < deadline, "the other process never came so far"
        os.sched_yield()


def test_an_image_without_tar(image: Image) -> None:
    """Both scripts exit with 127 and a message; the staging reads its input to the end first."""
    (image.path / "tar").unlink()
    wanted = (MISSING_PROGRAM, b"", b"senro: the image has no tar\n")
    assert image.stage_with(COMPLETE_REPLY + bytes(2**20)) == wanted
    assert image.run(reading_command((0,))) == wanted
    assert image.stage.poll() is None


def test_a_failing_tar(image: Image) -> None:
    """The script has tar's exit code, and tar's message on stderr."""
    (image.path / "tar").unlink()
    fake = image.path / "tar"
    fake.write_text("#!/bin/sh\necho full >&2; exit 3\n")
    fake.chmod(0o755)
    wanted = (3, b"", b"full\nsenro: tar exited 3\n")
    assert image.stage_with(COMPLETE_REPLY) == wanted
    assert image.run(reading_command((0,))) == wanted


def members_of(data: bytes, indexes: tuple[int, ...]) -> list[str]:
    """The members that the reader of the domain finds, without the roots."""
    return [event.path for event in read_events([data], indexes) if isinstance(event, Member) and event.path]


def test_a_tree_is_read_and_counted(image: Image) -> None:
    """The archive has the tree, and stderr the number of its members without the root."""
    make_folder(image.volumes / "0", TREE, CONTENTS)
    code, out, err = image.run(reading_command((0,)))
    assert (code, err) == (0, f"senro-members {len(TREE.entries)} 0\n".encode())
    assert read_tree(out) == TREE
    assert remote_count(err) == RemoteCount(len(members_of(out, (0,)))) == RemoteCount(len(TREE.entries))


def test_odd_names_are_counted(image: Image) -> None:
    """Newlines, dots, patterns, bytes that are not UTF-8, long names, deep folders, links, fifos."""
    top = os.fsencode(image.volumes / "0")
    for name in (
        b"a\nb",
        b"\n",
        b".x",
        b"..x",
        b"...",
        b".[!.]*",
        b"*",
        b"?",
        b"..?*",
        b" ",
        b"-",
        b"caf\xe9",
        b"x" * 255,
    ):
        with open(top + b"/" + name, "wb") as opened:  # noqa: PTH123 - names in bytes
            opened.write(name)
    os.symlink(b"nowhere", top + b"/dead")  # noqa: PTH211 - as above
    os.symlink(b".", top + b"/.loop")  # noqa: PTH211 - as above
    os.link(top + b"/ ", top + b"/hard")
    os.mkfifo(top + b"/fifo")
    deep = top
    for _ in range(12):
        deep += b"/..d\n"
        os.mkdir(deep)  # noqa: PTH102 - as above
    (image.volumes / "1" / "only").write_bytes(b"")
    code, out, err = image.run(reading_command((0, 1)))
    assert code == 0
    with tarfile.open(fileobj=io.BytesIO(out)) as tar:
        found = [member.name for member in tar if member.name not in ("0", "1")]
    assert remote_count(err) == RemoteCount(len(found)) == RemoteCount(13 + 4 + 12 + 1)


@contextmanager
def sockets(folder: Path, *names: str) -> Iterator[None]:
    """Sockets of these names in the folder, whose path may be longer than the 107 bytes of a socket's."""
    with ExitStack() as stack:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, opened)
        for name in names:
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(f"/proc/self/fd/{opened}/{name}")
        yield


def test_sockets_are_no_members(image: Image) -> None:
    """The archive leaves them out, and the count does not include them."""
    (image.volumes / "0" / "kept").write_bytes(b"")
    with sockets(image.volumes / "0", "s"):
        code, out, err = image.run(reading_command((0,)))
    assert (code, members_of(out, (0,))) == (0, ["kept"])
    assert remote_count(err) == RemoteCount(1, 1, ("0/s",))


def test_the_name_of_a_socket(image: Image) -> None:
    r"""A `\n` or a `%s` in it is two characters, whatever the shell's `echo` does."""
    with sockets(image.volumes / "0", r"a\nb%s\c"):
        code, out, err = image.run(reading_command((0,)))
    assert (code, members_of(out, (0,))) == (0, [])
    assert remote_count(err) == RemoteCount(0, 1, (r"0/a\nb%s\c",))


def test_a_shell_without_printf(image: Image) -> None:
    """In such a shell (mksh) only names without a backslash are printed; the count is complete."""
    for called, told in ((("a", "b%s"), ("0/a", "0/b%s")), (("c", r"d\c"), ("0/c",))):
        with sockets(image.volumes / "0", *called):
            sh, option, script, *words = reading_command((0,))
            assert "command -v printf" in script
            script = script.replace("command -v printf", "command -v no-such-program")
            code, _, err = image.run((sh, option, script, *words))
        assert (code, remote_count(err)) == (0, RemoteCount(0, 2, told))
        for name in called:
            (image.volumes / "0" / name).unlink()


def counting_for_ever() -> tuple[str, ...]:
    """The reading of a volume whose members cannot be counted to the end."""
    sh, option, script, *words = reading_command((0,))
    begin = "tell_members() {\n"
    assert begin in script
    return (sh, option, script.replace(begin, begin + "while :; do :; done\n"), *words)


def test_a_failing_tar_ends_the_count(image: Image) -> None:
    """The script reports the failure at once, and leaves no process."""
    (image.path / "tar").unlink()
    fake = image.path / "tar"
    fake.write_text("#!/bin/sh\necho full >&2; exit 3\n")
    fake.chmod(0o755)
    assert image.run(counting_for_ever()) == (3, b"", b"full\nsenro: tar exited 3\n")


def test_a_reader_that_has_gone_ends_the_count(image: Image) -> None:
    """If nobody reads the archive, the script ends with tar and prints no count."""
    (image.volumes / "0" / "large").write_bytes(bytes(2**20))
    with image.running(counting_for_ever()) as process:
        assert process.stdout is not None
        assert process.stdout.read(512)
        process.stdout.close()
        _, told = process.communicate(timeout=BOUND)
        code = process.returncode
    assert code != 0
    assert b"senro: tar exited " in told
    assert remote_count(told) is None


def test_links_are_counted_whatever_they_lead_to(image: Image) -> None:
    """The archive has each link as a link: to a socket, a fifo, a directory, a file, nothing or itself."""
    volume = image.volumes / "0"
    (volume / "d").mkdir()
    (volume / "d" / "f").write_bytes(b"")
    os.mkfifo(volume / "fifo")
    with sockets(volume, "s"):
        for target in ("s", "fifo", "d", "d/f", "nothing"):
            (volume / f"to-{target.replace('/', '-')}").symlink_to(target)
        (volume / "to-itself").symlink_to("to-itself")
        code, out, err = image.run(reading_command((0,)))
    found = members_of(out, (0,))
    assert (code, len(found)) == (0, 9)
    assert remote_count(err) == RemoteCount(9, 1, ("0/s",))


def test_a_tree_is_read_compressed(image: Image) -> None:
    """The archive is the same, compressed, and the exit code is tar's."""
    make_folder(image.volumes / "0", TREE, CONTENTS)
    for coding in image.has:
        code, out, err = image.run(reading_command((0,), coding=coding))
        unpacker = Decompressor()
        data = b"".join(unpacker.feed(out)) + unpacker.finish()
        assert (code, remote_count(err), read_tree(data)) == (0, RemoteCount(len(TREE.entries)), TREE)
        assert image.run(reading_command((0, 7), coding=coding))[0] not in (0, MISSING_PROGRAM)


def test_excluded_entries_are_neither_sent_nor_counted(image: Image) -> None:
    """At any depth, with their content; entries of similar names are sent."""
    for path in ("node_modules/a/b", "x/node_modules/c", "x/y.pyc", "x/y.pyc.txt", "my_node_modules/d", "*/e", "t~/f"):
        there = image.volumes / "0" / path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(b"")
    excludes = ("node_modules", "*.pyc", "t*")
    code, out, err = image.run(reading_command((0,), excludes=excludes))
    found = members_of(out, (0,))
    kept = {"*", "*/e", "my_node_modules", "my_node_modules/d", "x", "x/y.pyc.txt"}
    if b"node_modules/a" in out:  # a busybox that was built without --exclude
        assert "busybox" in str((image.path / "tar").readlink())
        kept |= {"node_modules", "node_modules/a", "node_modules/a/b", "t~", "t~/f", "x/y.pyc"}
        kept |= {"x/node_modules", "x/node_modules/c"}
    assert (code, set(found)) == (0, kept)
    assert remote_count(err) == RemoteCount(len(found))


def test_an_empty_volume_has_no_members(image: Image) -> None:
    """Without files there are no members; unmatched patterns of the shell do not count."""
    code, out, err = image.run(reading_command((0, 1)))
    assert (code, members_of(out, (0, 1)), remote_count(err)) == (0, [], RemoteCount(0))


def test_only_the_given_volumes_are_read(image: Image) -> None:
    """A read-only mount is not read."""
    (image.volumes / "0" / "not-me").write_bytes(b"")
    (image.volumes / "1" / "me").write_bytes(b"")
    code, out, err = image.run(reading_command((1,)))
    assert (code, members_of(out, (1,)), remote_count(err)) == (0, ["me"], RemoteCount(1))


def test_senro_io_ends_on_sigterm(image: Image) -> None:
    """It exits with 143 at once, so that an evicted pod is Failed."""
    with image.running(IO_COMMAND) as process:
        reached(lambda: " 1 " in f" {children(process.pid)} ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=BOUND) == 143


def children(pid: int) -> int:
    """The number of children of the process: with one, its trap is set and it sleeps."""
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_the_name_of_the_sentinel() -> None:
    """It begins like no file of a workspace and ends with the nonce."""
    assert sentinel_name(NONCE) == SENTINEL_PREFIX + NONCE
