"""The failure of a try of a transfer whose stream did not break."""

from __future__ import annotations

from senro.domain.errors import SenroError
from senro.domain.kube.exec_protocol import ExecFailure, ExecResult, ExitCode, StatusLost


class TransferFailure(SenroError):
    """The remote command failed, or did not prove that it succeeded.

    `permanent`: whether another try in the same pod would fail too: the image lacks a program.
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.permanent = permanent

    def __str__(self) -> str:
        return self.message


def end_words(result: ExecResult, stderr: bytes, otherwise: str) -> str:
    """The message for the end of a remote command; `otherwise` is the message if it exited 0."""
    how = otherwise
    match result:
        case ExitCode(code=0):
            pass
        case ExitCode(code=code):
            how = f"the transfer's command exited {code}"
        case ExecFailure(message=message):
            how = message
        case StatusLost():
            how = "the stream was closed without a status"
    text = stderr.decode("utf-8", "replace").strip()
    return f"{how}: {text}" if text else how
