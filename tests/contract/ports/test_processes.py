from __future__ import annotations

import errno
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from senro.adapters.process import LocalProcesses
from senro.adapters.process.local import _exit_code, child_environment
from senro.adapters.process.output import Delivery, Pump
from senro.adapters.process.start_errors import start_error_message
from senro.ports.processes import Command, ProcessEnd, Processes
from tests.contract.ports.processes_suite import COORDINATOR, PROGRAMS, ProcessesSuite, Sink
from tests.lib.fakes.processes import FakeProcesses

pytestmark = pytest.mark.anyio


class TestFakeProcesses(ProcessesSuite):
    @pytest.fixture
    def processes(self) -> Processes:
        return FakeProcesses(dict(PROGRAMS.values()), COORDINATOR)


class TestLocalProcesses(ProcessesSuite):
    @pytest.fixture
    def processes(self) -> Processes:
        return LocalProcesses(COORDINATOR)


def runs(pid: int) -> bool:
    """Returns whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def open_files() -> set[int]:
    """Returns the open file descriptors of this process."""
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}


def shell(script: str, cwd: Path, *, timeout: float | None = None, grace: float = 0.1) -> Command:
    return Command(argv=["sh", "-c", script], cwd=str(cwd), env={}, timeout=timeout, grace=grace)


FAMILY = """
sh -c 'trap "" TERM; echo $$ > grandchild; sleep 1000; sleep 1000' &
sleep 1000 &
echo $! > child
while [ ! -s grandchild ]; do sleep 0.01; done
echo ready
"""
"""A child, and a grandchild that ignores SIGTERM; it prints `ready` once both run. They keep stdout and stderr open."""


def family(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in ("child", "grandchild")]


@asynccontextmanager
async def running(processes: Processes, command: Command) -> AsyncIterator[Callable[[], None]]:
    """Run the command in a task until its first output; yields what cancels it, and waits for it at the end."""
    sink = Sink()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(processes.run, command, sink)
        with anyio.fail_after(20):
            await sink.ready.wait()
        yield tasks.cancel_scope.cancel


@pytest.mark.slow  # the processes need time to start on a busy machine
async def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    """At the timeout every child and grandchild of the group ends, also one that ignores SIGTERM."""
    end = await LocalProcesses().run(shell(FAMILY + "wait", tmp_path, timeout=1.0), Sink())
    assert end.timed_out
    assert [pid for pid in family(tmp_path) if runs(pid)] == []


async def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    """When a cancelled run returns, every child and grandchild of the group has ended."""
    async with running(LocalProcesses(), shell(FAMILY + "wait", tmp_path)) as cancel:
        assert all(runs(pid) for pid in family(tmp_path))
        cancel()
    assert [pid for pid in family(tmp_path) if runs(pid)] == []


async def test_children_of_an_ended_command_are_ended(tmp_path: Path) -> None:
    """A command that ends before its children has its own code, and the children are ended."""
    sink = Sink()
    end = await LocalProcesses(linger=0.05).run(shell(FAMILY + "exit 4", tmp_path), sink)
    assert end == ProcessEnd(code=4)
    assert sink.stdout == b"ready\n"
    assert [pid for pid in family(tmp_path) if runs(pid)] == []


async def test_children_of_an_ended_command_may_finish(tmp_path: Path) -> None:
    """The output of a child that ends soon after the command arrives."""
    sink = Sink()
    end = await LocalProcesses().run(shell("(sleep 0.05; echo late) & exit 0", tmp_path), sink)
    assert end == ProcessEnd(code=0)
    assert sink.stdout == b"late\n"


async def test_cancellation_after_the_command_ended(tmp_path: Path) -> None:
    """A cancellation after the command ended still ends its children."""
    async with running(LocalProcesses(linger=60), shell(FAMILY + "exit 0", tmp_path)) as cancel:
        cancel()
    assert [pid for pid in family(tmp_path) if runs(pid)] == []


async def test_a_daemon_does_not_hang_the_call(tmp_path: Path) -> None:
    """A process that left the group lives on, and the call does not wait for the output that it keeps open."""
    sink = Sink()
    script = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & while [ ! -s daemon ]; do sleep 0.01; done; echo hi"
    try:
        with anyio.fail_after(20):
            end = await LocalProcesses().run(shell(script, tmp_path), sink)
        assert end == ProcessEnd(code=0)
        assert sink.stdout == b"hi\n"
        assert runs(int((tmp_path / "daemon").read_text()))
    finally:
        with suppress(OSError):
            os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)


async def test_a_daemon_that_writes_for_ever_does_not_hang_the_call(tmp_path: Path) -> None:
    """Once the group has ended, the content of the pipe is delivered, and no more."""
    script = "setsid sh -c 'echo $$ > daemon; exec yes' & while [ ! -s daemon ]; do sleep 0.01; done"
    try:
        with anyio.fail_after(20):
            assert await LocalProcesses().run(shell(script, tmp_path), Sink()) == ProcessEnd(code=0)
    finally:
        with suppress(OSError):
            os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)


async def test_cancellation_while_the_sink_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that never returns does not delay a cancellation."""
    monkeypatch.setattr("senro.adapters.process.local.DRAIN_SECONDS", 0.05)
    called = anyio.Event()

    async def stuck(_stream: str, _data: bytes) -> None:
        called.set()
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalProcesses().run, shell(FAMILY + "wait", tmp_path), stuck)
            await called.wait()
            tasks.cancel_scope.cancel()
    assert [pid for pid in family(tmp_path) if runs(pid)] == []


async def test_cancellation_after_the_end_while_the_sink_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink may take any time for the last output, until the run is cancelled."""
    monkeypatch.setattr("senro.adapters.process.local.DRAIN_SECONDS", 0.05)
    called = anyio.Event()

    async def stuck(_stream: str, _data: bytes) -> None:
        called.set()
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalProcesses().run, shell("echo $$ > leader; echo hi", tmp_path), stuck)
            await called.wait()
            while runs(int((tmp_path / "leader").read_text())):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("turns", range(12))
async def test_cancellation_at_any_turn(tmp_path: Path, turns: int) -> None:
    """A run that is cancelled after any number of turns of the event loop leaves no process and no open file."""
    before = open_files()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalProcesses().run, shell("echo $$ > leader; exec sleep 1000", tmp_path), Sink())
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    leader = tmp_path / "leader"
    pid = int(leader.read_text() or "0") if leader.exists() else 0
    assert not (pid and runs(pid))
    assert open_files() == before


async def test_content_of_the_pipe_at_the_end() -> None:
    """A pump that is closed before it ran delivers the content of the pipe, although others keep it open."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    sink = Sink()
    pump = Pump("stderr", ours, Delivery(sink, lambda: None))
    try:
        os.write(theirs, b"the last words")
        pump.close()
        await pump.run()
    finally:
        os.close(ours)
        os.close(theirs)
    assert sink.stderr == b"the last words"
    assert pump.done.is_set()


async def test_failed_sink_is_not_called_again(tmp_path: Path) -> None:
    """A sink that raised is not called again, although the command writes more."""
    calls = 0

    async def full(_stream: str, _data: bytes) -> None:
        nonlocal calls
        calls += 1
        raise OSError(errno.ENOSPC, "No space left on device")

    script = "trap 'head -c 200000 /dev/zero; exit 0' TERM; echo one; while :; do sleep 0.01; done"
    with anyio.fail_after(20), pytest.raises(OSError, match="No space left"):
        await LocalProcesses().run(shell(script, tmp_path, grace=20), full)
    assert calls == 1


async def test_error_names_a_process_that_cannot_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names a process of another user in the group, and how to find it."""

    def refused(_group: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", refused)
        patched.setattr("senro.adapters.process.group.KILL_SECONDS", 0.05)
        end = await LocalProcesses(linger=0.01).run(shell("sleep 1000 & echo $! > child; exit 2", tmp_path), Sink())
    group = os.getpgid(int((tmp_path / "child").read_text()))
    os.killpg(group, signal.SIGKILL)
    assert end.code == 2
    assert end.error == (
        f"a process of its group {group} survived SIGKILL; look for it with 'pgrep -l -g {group}' and end it by hand"
    )


@pytest.mark.parametrize("proc", ["missing", "empty"])
async def test_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proc: str) -> None:
    """Without /proc, killpg decides: a group is ended, one of another user is given up."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("senro.adapters.process.group._PROC", tmp_path / proc)
    monkeypatch.setattr("senro.adapters.process.group.KILL_SECONDS", 0.05)
    leaves = shell("sleep 1000 & echo $! > child; exit 2", tmp_path, grace=0.05)
    await LocalProcesses(linger=0.01).run(leaves, Sink())
    assert not runs(int((tmp_path / "child").read_text()))

    def refused(_group: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", refused)
        end = await LocalProcesses(linger=0.01).run(leaves, Sink())
    assert end == ProcessEnd(code=2)
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_process_that_nothing_ends_counts_as_killed() -> None:
    """A leader that is blocked in the kernel has the code of SIGKILL."""
    assert _exit_code(None) == 137


async def test_back_pressure(tmp_path: Path) -> None:
    """While the sink does not return, the command blocks: its output is bounded by the pipe and one piece."""
    go_on = anyio.Event()
    called = anyio.Event()
    held = 0

    async def slow(_stream: str, data: bytes) -> None:
        nonlocal held
        held += len(data)
        called.set()
        await go_on.wait()

    script = "echo $$ > leader; head -c 1000000 /dev/zero; echo > written"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(LocalProcesses().run, shell(script, tmp_path), slow)
        with anyio.fail_after(20):
            await called.wait()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert not (tmp_path / "written").exists()
        assert held <= 64 * 1024
        go_on.set()
    assert held == 1_000_000


async def test_env_of_a_real_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The output of `env` in a real child shows no credential and no secret."""
    monkeypatch.setenv("SENRO_K8S_SERVER", "https://127.0.0.1:6443")
    monkeypatch.setenv("SENRO_K8S_TOKEN", "not-for-children")
    monkeypatch.setenv("SENRO_SECRET_KUBECONFIG", "not-for-children")
    monkeypatch.setenv("SENRO_REMOTE_SCRATCH", "s3://not-for-children/x")
    monkeypatch.setenv("SENRO_REMOTE_SCRATCH_REGION", "not-for-children")
    monkeypatch.setenv("SENRO_CACHE_DIR", "/cache")
    monkeypatch.setenv("KEPT", "old")
    sink = Sink()
    command = Command(argv=["env", "-0"], cwd=str(tmp_path), env={"KEPT": "new", "EMPTY": "", "LINES": "a\nb=c"})
    assert (await LocalProcesses().run(command, sink)).code == 0
    shown = dict(entry.split(b"=", 1) for entry in sink.stdout.split(b"\0") if entry)
    assert [name for name in shown if name.startswith((b"SENRO_K8S_", b"SENRO_SECRET_", b"SENRO_REMOTE_"))] == []
    assert b"not-for-children" not in sink.stdout
    assert shown[b"SENRO_CACHE_DIR"] == b"/cache"
    assert (shown[b"KEPT"], shown[b"EMPTY"], shown[b"LINES"]) == (b"new", b"", b"a\nb=c")


def test_withheld_prefixes() -> None:
    """Only variables with the three prefixes are withheld, both of the coordinator and of the command."""
    own = {"SENRO_K8S_": "1", "SENRO_K8": "2", "XSENRO_K8S_A": "3", "senro_secret_a": "4", "SENRO_SECRETS": "5"}
    remote = {"SENRO_REMOTE_SCRATCH": "8", "SENRO_REMOTE_SCRATCH_TIMEOUT": "9", "SENRO_REMOTE": "10"}
    assert child_environment(own | remote, {"SENRO_SECRET_X": "6", "A": "7"}) == {
        "SENRO_K8": "2",
        "XSENRO_K8S_A": "3",
        "senro_secret_a": "4",
        "SENRO_SECRETS": "5",
        "SENRO_REMOTE": "10",
        "A": "7",
    }


async def test_stdin_is_empty(tmp_path: Path) -> None:
    """A command that reads its stdin gets end of file at once."""
    sink = Sink()
    assert (await LocalProcesses().run(shell("cat; echo done", tmp_path), sink)).code == 0
    assert sink.stdout == b"done\n"


async def test_command_has_its_own_session(tmp_path: Path) -> None:
    """Ctrl-C in a terminal does not reach the command, whose session is not the coordinator's."""
    sink = Sink()
    script = "cut -d' ' -f1,5,6 /proc/$$/stat"
    assert (await LocalProcesses().run(shell(script, tmp_path), sink)).code == 0
    pid, group, session = sink.stdout.split()
    assert pid == group == session


async def refusal(argv: list[str], cwd: Path, **env: str) -> str:
    end = await LocalProcesses().run(Command(argv=argv, cwd=str(cwd), env=env), Sink())
    assert end.code is None
    return end.error


async def test_errors_of_commands_that_cannot_start(tmp_path: Path) -> None:
    """Each reason has its own message, with what to do."""
    (tmp_path / "plain").write_text("echo hi\n")
    script = tmp_path / "orphan"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    (tmp_path / "noise").write_bytes(b"\x00\x01\x02")
    (tmp_path / "noise").chmod(0o755)
    gone = tmp_path / "gone"
    assert await refusal(["./nope"], tmp_path) == (
        f"cannot run './nope': there is no such file in '{tmp_path}'; check the path, and that an earlier step made it"
    )
    assert await refusal(["./plain"], tmp_path) == (
        "cannot run './plain': it is not executable; set its executable bit (chmod +x), or name its interpreter first"
    )
    missing = "the interpreter in its first line (or its ELF header) does not exist; install it"
    assert await refusal(["./orphan"], tmp_path) == f"cannot run './orphan': {missing}"
    assert await refusal(["orphan"], tmp_path, PATH=str(tmp_path)) == f"cannot run 'orphan': {missing}"
    assert await refusal(["./noise"], tmp_path) == (
        "cannot run './noise': it is not a program for this machine; a script needs a first line such as '#!/bin/sh'"
    )
    assert await refusal(["/"], tmp_path) == "cannot run '/': it is a folder; name the program in it"
    assert await refusal(["true"], gone) == (
        f"cannot run 'true': its folder '{gone}' does not exist; "
        "create it in an earlier step, or correct the step's workdir"
    )
    assert await refusal(["true"], script) == (
        f"cannot run 'true': '{script}' is not a folder; correct the step's workdir"
    )
    assert await refusal([], tmp_path) == "cannot run '': the command is empty; give the step a program to run"
    assert await refusal(["true", "a\0b"], tmp_path) == (
        "cannot run 'true': embedded null byte; no argument, folder or variable may contain that"
    )
    assert await refusal(["true", "x" * 3_000_000], tmp_path) == (
        "cannot run 'true': its arguments and environment exceed the limit of this machine; pass the data in a file"
    )


def test_error_of_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory that may not be entered is named, and not the program."""
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    command = Command(argv=["true"], cwd=str(tmp_path), env={})
    assert start_error_message(command, PermissionError(errno.EACCES, "Permission denied")) == (
        f"cannot run 'true': its folder '{tmp_path}' cannot be entered by this user; "
        "change its mode, or the step's workdir"
    )


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EAGAIN, "has no room for another process (Resource temporarily unavailable); run fewer steps at once"),
        (errno.EPERM, "Operation not permitted; check that this user can run it by hand in '/'"),
    ],
)
def test_errors_of_the_kernel(number: int, expected: str) -> None:
    """A refusal of the kernel for lack of memory or rights has a message of its own."""
    command = Command(argv=["true"], cwd="/", env={})
    assert expected in start_error_message(command, OSError(number, os.strerror(number)))


async def test_error_has_no_value_of_a_variable(tmp_path: Path) -> None:
    """A variable that a program cannot have is refused without its value."""
    error = await refusal(["true"], tmp_path, SETTING="hunter2\0")
    assert "hunter2" not in error
