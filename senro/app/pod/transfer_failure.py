"""Why a try of a transfer failed although the stream did not break."""

from __future__ import annotations

from senro.domain.errors import SenroError
from senro.domain.kube.exec_protocol import ExecFailure, ExecResult, ExitCode, StatusLost


class TransferFailure(SenroError):
    """The far side said that it failed, or could not prove that it did not.

    `permanent`: another try in the same pod ends the same, such as a program that the image lacks.
    """

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.permanent = permanent

    def __str__(self) -> str:
        return self.message


def end_words(result: ExecResult, stderr: bytes, otherwise: str) -> str:
    """How the far side ended, in its words; `otherwise` is what is wrong where it claims success."""
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
    words = stderr.decode("utf-8", "replace").strip()
    return f"{how}: {words}" if words else how
