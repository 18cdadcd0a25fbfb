"""Runs one attempt of a local step as a process of the coordinator."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from senro.app.attempt import Attempt
from senro.domain.errors import TreeError
from senro.domain.kube.names import ATTEMPT_VARIABLE, RUN_VARIABLE, STEP_VARIABLE, label_value
from senro.domain.pipeline.step_mounts import mount_variable
from senro.domain.run.events import LogEnded, StepRunning
from senro.domain.run.outcome import Outcome
from senro.domain.text.line_splitter import LineCutter
from senro.domain.text.stream_redactor import PieceMask
from senro.ports.ledger import StepLog
from senro.ports.processes import Command, ProcessEnd
from senro.ports.reporter import Stream

GRACE_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL: a cancelled run ends within ten seconds."""


@dataclass(slots=True)
class LocalAttempt:
    """One attempt on the coordinator.

    The path of a mount does not exist here: a workdir at or below it is mapped to the workspace's folder, which
    `SENRO_WORKSPACE_<NAME>` names.

    `secret_files`: the files with the values of secrets, by the names of the secrets.
    `base`: the working directory of a step without a workdir; a relative workdir is relative to it.
    """

    attempt: Attempt
    secret_files: Mapping[str, str]
    base: str

    async def run(self) -> Outcome:
        """Run the command and return the outcome. Keeps the workspaces after a success, and after the last attempt."""
        attempt = self.attempt
        step, number = attempt.step, attempt.identity.attempt
        attempt.report_phase("running")
        await attempt.recorder.record(StepRunning(at=attempt.recorder.now(), step=step.id, attempt=number))
        async with attempt.services.ledger.open_log(label_value(step.id), number) as log:
            output = _Output(attempt, log)
            end = await attempt.services.processes.run(
                Command(
                    argv=step.command,
                    cwd=self._workdir(),
                    env=self._environment(),
                    timeout=step.timeout,
                    grace=GRACE_SECONDS,
                ),
                output.write,
            )
            await output.finish()
        await attempt.recorder.record(LogEnded(at=attempt.recorder.now(), step=step.id, attempt=number, complete=True))
        return await self._keep(_outcome(end))

    async def _keep(self, outcome: Outcome) -> Outcome:
        attempt = self.attempt
        changed = await attempt.workspaces.undo_read_only_changes(attempt.step)
        if outcome.kind == "succeeded" and changed:
            names = ", ".join(changed)
            return Outcome(
                kind="failed",
                code=outcome.code,
                message=f"the step changed a workspace that it mounts read-only ({names}); the change was undone",
                hint="Mount it read-write, or write elsewhere.",
            )
        if outcome.kind == "succeeded" or attempt.last:
            try:
                await attempt.workspaces.keep(attempt.step, attempt.identity.attempt)
            except TreeError as error:
                await attempt.workspaces.restore(attempt.step)
                return Outcome(
                    kind="failed",
                    code=outcome.code,
                    message=f"a workspace was refused as the step left it: {error}",
                    hint=outcome.hint or "The workspace was restored to its state before the step.",
                )
        if outcome.kind == "succeeded":
            await attempt.workspaces.scratch_caches.save_local(attempt.step, attempt.identity.attempt)
        return outcome

    def _workdir(self) -> str:
        attempt = self.attempt
        workdir = attempt.step.workdir
        if workdir is None:
            return self.base
        for each in attempt.mounts:
            path = each.mount.path
            if workdir == path or workdir.startswith(path + "/"):
                return posixpath.join(each.folder, workdir[len(path) :].lstrip("/")).rstrip("/")
        return posixpath.join(self.base, workdir)

    def _environment(self) -> dict[str, str]:
        attempt = self.attempt
        step, identity = attempt.step, attempt.identity
        return {
            **step.env,
            **{variable: self.secret_files[name] for variable, name in step.secrets.items()},
            **{mount_variable(each.mount): each.folder for each in attempt.mounts},
            RUN_VARIABLE: identity.run_id,
            STEP_VARIABLE: identity.step_id,
            ATTEMPT_VARIABLE: str(identity.attempt),
        }


class _Output:
    """Splits the output of a process into lines, masks secrets, and passes the lines to log and reporter."""

    def __init__(self, attempt: Attempt, log: StepLog) -> None:
        self._attempt = attempt
        self._log = log
        self._cutters: dict[Stream, LineCutter] = {"stdout": LineCutter(), "stderr": LineCutter()}
        redactor = attempt.recorder.redactor
        self._masks: dict[Stream, PieceMask] = {"stdout": PieceMask(redactor), "stderr": PieceMask(redactor)}

    async def write(self, stream: Stream, data: bytes) -> None:
        await self._write_lines(stream, self._cutters[stream].feed(data))

    async def finish(self) -> None:
        for stream, cutter in self._cutters.items():
            await self._write_lines(stream, cutter.finish())
            await self._log.write(self._attempt.report_line(stream, self._masks[stream].finish(), ended=False))

    async def _write_lines(self, stream: Stream, lines: list[bytes]) -> None:
        mask, written = self._masks[stream], bytearray()
        for line in lines:
            ended = line.endswith(b"\n")
            text = mask.feed(line.removesuffix(b"\n"), complete=ended)
            written += self._attempt.report_line(stream, text, ended=ended)
        if written:
            await self._log.write(bytes(written))


def _outcome(end: ProcessEnd) -> Outcome:
    if end.timed_out:
        hint = "Raise the step's timeout, or make it faster."
        return Outcome(kind="timed_out", code=end.code, message=end.error, hint=hint)
    if end.code is None:
        return Outcome(kind="failed", did_run="no", notes=("start-error",), message=end.error)
    return Outcome(kind="succeeded" if end.code == 0 else "failed", code=end.code, message=end.error)
