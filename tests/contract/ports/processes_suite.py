"""The conformance suite of `senro.ports.processes`. `PROGRAMS` has each program as a command line and as a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import anyio
import pytest

from senro.ports.processes import Command, ProcessEnd, Processes
from tests.lib.fakes.processes import Action, Env, Exit, Handler, Hang, Out

pytestmark = pytest.mark.anyio

BIG = 300_000  # larger than several pipes

PROGRAMS: dict[str, tuple[tuple[str, ...], list[Action]]] = {
    "two streams": (
        ("sh", "-c", "echo one; echo two; echo bad >&2; exit 3"),
        [Out("stdout", b"one\n"), Out("stdout", b"two\n"), Out("stderr", b"bad\n"), Exit(3)],
    ),
    "silent": (("sh", "-c", ":"), [Exit(0)]),
    "big": (
        ("sh", "-c", f"head -c {BIG} /dev/zero; head -c {BIG} /dev/zero >&2; printf end"),
        [Out("stdout", bytes(BIG)), Out("stderr", bytes(BIG)), Out("stdout", b"end"), Exit(0)],
    ),
    "killed": (("sh", "-c", "kill -KILL $$"), [Exit(137)]),
    "hangs": (("sh", "-c", "echo ready; exec sleep 1000"), [Out("stdout", b"ready\n"), Hang()]),
    "says goodbye": (
        ("sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"),
        [Handler((Out("stdout", b"bye\n"), Exit(7))), Out("stdout", b"ready\n"), Hang()],
    ),
    "says a long goodbye": (
        (
            "sh",
            "-c",
            f"trap 'head -c {BIG} /dev/zero; echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done",
        ),
        [Handler((Out("stdout", bytes(BIG)), Out("stdout", b"bye\n"), Exit(7))), Out("stdout", b"ready\n"), Hang()],
    ),
    "ignores TERM": (
        ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"),
        [Handler(), Out("stdout", b"ready\n"), Hang()],
    ),
    "tells its environment": (
        (
            "sh",
            "-c",
            'for name in OWN ADDED SENRO_K8S_TOKEN SENRO_SECRET_A SENRO_RUN; do eval "echo \\${$name-unset}"; done',
        ),
        [Env("OWN"), Env("ADDED"), Env("SENRO_K8S_TOKEN"), Env("SENRO_SECRET_A"), Env("SENRO_RUN")],
    ),
}

COORDINATOR = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "OWN": "own",
    "SENRO_K8S_TOKEN": "not-for-children",
    "SENRO_SECRET_A": "not-for-children-either",
    "SENRO_RUN": "run-1",
}
"""The environment of the coordinator."""


def command(program: str, *, timeout: float | None = None, grace: float = 30.0, **env: str) -> Command:
    return Command(argv=PROGRAMS[program][0], cwd="/", env=env, timeout=timeout, grace=grace)


@dataclass
class Sink:
    """Collects the output, and sets `ready` at the first piece."""

    stdout: bytes = b""
    stderr: bytes = b""
    ready: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if stream == "stdout":
            self.stdout += data
        else:
            self.stderr += data
        self.ready.set()


class ProcessesSuite:
    """A subclass has the fixture `processes`, with `COORDINATOR` as the coordinator's environment."""

    @pytest.fixture
    def processes(self) -> Processes:
        raise NotImplementedError

    async def test_streams_are_separate(self, processes: Processes) -> None:
        """The exit code and both streams arrive, each stream in order."""
        sink = Sink()
        end = await processes.run(command("two streams"), sink)
        assert end == ProcessEnd(code=3)
        assert (sink.stdout, sink.stderr) == (b"one\ntwo\n", b"bad\n")

    async def test_command_without_output(self, processes: Processes) -> None:
        """A command without output succeeds, and the sink is not called."""

        async def never(stream: str, data: bytes) -> None:
            raise AssertionError((stream, data))

        assert await processes.run(command("silent"), never) == ProcessEnd(code=0)

    async def test_large_output_is_complete(self, processes: Processes) -> None:
        """Output larger than a pipe arrives completely on both streams."""
        sink = Sink()
        assert await processes.run(command("big"), sink) == ProcessEnd(code=0)
        assert sink.stdout == bytes(BIG) + b"end"
        assert sink.stderr == bytes(BIG)

    async def test_sink_is_called_one_at_a_time(self, processes: Processes) -> None:
        """The sink is not called again before it has returned, for either stream."""
        inside = 0
        most = 0

        async def slow(_stream: str, _data: bytes) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            inside -= 1

        assert (await processes.run(command("big"), slow)).code == 0
        assert most == 1

    async def test_signals_count_from_128(self, processes: Processes) -> None:
        """A command that a signal ended has the code 128 plus the signal's number."""
        assert await processes.run(command("killed"), Sink()) == ProcessEnd(code=137)

    async def test_missing_program(self, processes: Processes) -> None:
        """A missing program is an end without a code, and the error names it."""
        end = await processes.run(Command(argv=["senro-no-such-program"], cwd="/", env={}), Sink())
        assert end.code is None
        assert not end.timed_out
        assert "'senro-no-such-program'" in end.error

    @pytest.mark.slow  # the shell needs time to start on a busy machine
    async def test_timeout_sends_sigterm(self, processes: Processes) -> None:
        """At the timeout SIGTERM ends a command that does not handle it."""
        end = await processes.run(command("hangs", timeout=1.0), Sink())
        assert end == ProcessEnd(code=143, timed_out=True)

    @pytest.mark.slow  # the shell needs time to start on a busy machine
    async def test_output_after_the_timeout_arrives(self, processes: Processes) -> None:
        """The output of a SIGTERM handler arrives, and its exit code counts."""
        sink = Sink()
        end = await processes.run(command("says goodbye", timeout=1.0), sink)
        assert end == ProcessEnd(code=7, timed_out=True)
        assert sink.stdout == b"ready\nbye\n"

    @pytest.mark.slow  # the shell needs time to start on a busy machine
    async def test_kill_all(self, processes: Processes) -> None:
        """It kills a command that ignores SIGTERM without waiting for the grace, and may be called twice."""
        sink = Sink()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(processes.run, command("ignores TERM", grace=3600.0), sink)
                await sink.ready.wait()
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
                    processes.kill_all()
                    processes.kill_all()
        processes.kill_all()

    async def test_kill_all_kills_every_group(self, processes: Processes) -> None:
        """Every running group is killed, with the code of SIGKILL."""
        ends: list[ProcessEnd] = []

        async def run(sink: Sink) -> None:
            ends.append(await processes.run(command("hangs"), sink))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                sinks = Sink(), Sink()
                for sink in sinks:
                    group.start_soon(run, sink)
                for sink in sinks:
                    await sink.ready.wait()
                processes.kill_all()
        assert ends == [ProcessEnd(code=137)] * 2

    async def test_sigkill_after_the_grace(self, processes: Processes) -> None:
        """A command that ignores SIGTERM is killed after the grace."""
        end = await processes.run(command("ignores TERM", timeout=1.0, grace=0.05), Sink())
        assert end == ProcessEnd(code=137, timed_out=True)

    @pytest.mark.parametrize("program", ["hangs", "says goodbye", "ignores TERM"])
    async def test_cancellation_ends_the_command(self, processes: Processes, program: str) -> None:
        """A cancelled run ends its command, whether or not that handles SIGTERM."""
        sink = Sink()
        returned: list[ProcessEnd] = []

        async def run() -> None:
            returned.append(await processes.run(command(program, grace=0.05), sink))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await sink.ready.wait()
                tasks.cancel_scope.cancel()
        assert returned == []
        assert sink.stdout.startswith(b"ready\n")

    async def test_output_after_a_cancellation_arrives(self, processes: Processes) -> None:
        """The output of a command that a cancellation ends arrives completely."""
        sink = Sink()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(processes.run, command("says a long goodbye"), sink)
            with anyio.fail_after(20):
                await sink.ready.wait()
            tasks.cancel_scope.cancel()
        assert sink.stdout == b"ready\n" + bytes(BIG) + b"bye\n"

    async def test_cancellation_before_the_start(self, processes: Processes) -> None:
        """A run in a scope that is already cancelled is cancelled."""
        with anyio.CancelScope() as scope:
            scope.cancel()
            await processes.run(command("hangs", grace=0.05), Sink())
        assert scope.cancelled_caught

    async def test_exception_of_the_sink(self, processes: Processes) -> None:
        """An exception of the sink ends the command and is raised by `run`."""

        async def full(_stream: str, _data: bytes) -> None:
            raise OSError(28, "No space left on device")

        with anyio.fail_after(20), pytest.raises(OSError, match="No space left"):
            await processes.run(command("hangs", grace=0.05), full)

    async def test_environment(self, processes: Processes) -> None:
        """A child has the variables of the coordinator and of the command, but no credential and no secret."""
        sink = Sink()
        printing = command("tells its environment", ADDED="added", SENRO_SECRET_A="nor-from-the-command")
        assert (await processes.run(printing, sink)).code == 0
        assert sink.stdout == b"own\nadded\nunset\nunset\nrun-1\n"
