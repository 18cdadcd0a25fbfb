"""The two halves of an upload's exec: one task sends the archive, another reads what the remote script replies."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from senro.app.pod.compression import CompressionChoice, RestartCompressed
from senro.app.pod.transfer import STDERR_LIMIT
from senro.app.pod.transfer_failure import TransferFailure, end_words
from senro.domain.errors import ClusterError, TreeError
from senro.domain.kube.exec_protocol import Ended, ExecEvent, ExitCode, Stderr, Stdout
from senro.domain.transfer.compression import PROBE_FROM, PROBE_TO, Coding
from senro.domain.transfer.replies import MISSING_PROGRAM, StagingProof, missing_program, missing_program_message
from senro.domain.transfer.scripts import coding_line
from senro.ports.cluster import ExecSession
from senro.ports.trees import Archive

STATUS_SECONDS = 5.0
"""How long the exec's status is awaited after the proof line. It is not needed: this closes the connection in order."""


class ArchiveSender:
    """Sends an archive to the exec's stdin while another task reads the replies.

    `error` is set, and the scope given to `run` cancelled, if the archive cannot be read or the upload has to restart.
    An error of the stream is left to the reading task, which sees it too.
    """

    def __init__(
        self, archive: Archive, session: ExecSession, coding: Coding, progress: Callable[[int, int], None]
    ) -> None:
        self._archive = archive
        self._session = session
        self._coding = coding
        self._progress = progress
        self.error: TreeError | RestartCompressed | None = None
        self.wire_bytes = 0
        self.content_bytes = 0
        self.complete = False
        """Whether the whole archive was sent."""

        self.passed = {PROBE_FROM: anyio.Event(), PROBE_TO: anyio.Event()}
        """Each is set as soon as that number of bytes was sent."""

    async def run(self, scope: anyio.CancelScope) -> None:
        """Send the line that names the coding and the archive, then close stdin.

        Calls `progress(content_bytes, wire_bytes)` after each piece.
        """
        try:
            await self._session.send(coding_line(self._coding))
            while data := await self._archive.read():
                await self._session.send(data)
                self.wire_bytes += len(data)
                self.content_bytes = self._archive.content_bytes
                self._progress(self.content_bytes, self.wire_bytes)
                for threshold, passed in self.passed.items():
                    if self.wire_bytes >= threshold:
                        passed.set()
            self.complete = True
            await self._session.close_stdin()
        except TreeError as error:
            self.error = error
            scope.cancel()
        except ClusterError:
            return


class StageReplies:
    """Reads what the remote script of an upload writes: the compressors that it has, and the proof line.

    `image` is the image of `senro-stage`, for the message about a missing program. `note_event` is called with each
    event.
    """

    def __init__(
        self,
        nonce: str,
        session: ExecSession,
        compression: CompressionChoice,
        image: str,
        *,
        note_event: Callable[[ExecEvent], None],
    ) -> None:
        self._note_event = note_event
        self._session = session
        self._compression = compression
        self._image = image
        self._proof = StagingProof(nonce)
        self._stderr = b""

    async def wait_for_compressors(self) -> None:
        """Return once the script has named its compressors. Raises `TransferFailure` if it ended before."""
        await self._receive_until(lambda proof: proof.has is not None)

    async def wait_for_proof(self) -> None:
        """Return once the proof line came, and the stream ended or `STATUS_SECONDS` passed.

        Raises `TransferFailure` if the script ended before.
        """
        await self._receive_until(lambda proof: proof.proven)
        with anyio.move_on_after(STATUS_SECONDS):
            try:
                while not isinstance(await self._session.receive(), Ended):
                    pass
            except ClusterError:
                return  # the container ends after the proof line, and its exec may be cut with it

    async def _receive_until(self, condition: Callable[[StagingProof], bool]) -> None:
        while not condition(self._proof):
            event = await self._session.receive()
            self._note_event(event)
            match event:
                case Stdout(data=data):
                    self._proof = self._proof.receive(data)
                    if self._proof.has is not None:
                        self._compression.has = self._proof.has
                case Stderr(data=data):
                    self._stderr = (self._stderr + data)[:STDERR_LIMIT]
                case Ended(result=result):
                    program = missing_program(self._stderr) if result == ExitCode(MISSING_PROGRAM) else None
                    if program is not None:
                        raise TransferFailure(missing_program_message(self._image, program), permanent=True)
                    raise TransferFailure(end_words(result, self._stderr, "no proof line came"))
