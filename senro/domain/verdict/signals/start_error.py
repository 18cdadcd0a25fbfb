"""Why a container could not be started: because of its command, or of the node.

The runtime wraps the cause in layers that mention shim and runtime whatever the cause is (recordings
`command-not-found`, `create-container-error`). The cause is what follows the last marker.
"""

from __future__ import annotations

import re

from senro.domain.kube.pod import ContainerStateTerminated
from senro.domain.transfer.replies import MISSING_PROGRAM
from senro.domain.verdict.kinds import InfraKind

START_REASONS = frozenset({"StartError", "ContainerCannotRun"})
"""The reasons of a failed start: containerd's (docs/design/pod-states.md#row-31-starterror) and Docker's. CRI-O fails
while it creates the container (docs/design/pod-states.md#row-153-missing-program-on-containerd-and-cri-o)."""

_MARKER = "unable to start container process:"
# A command or a directory may be named `cgroup`: quoted text and paths are no evidence.
_NAMES = re.compile(r'"[^"]*"|(?<=[\s(])/[^\s)]*')

_INFRA: tuple[tuple[InfraKind, str], ...] = (
    # Recording create-container-error: a mount on a path whose parent is a file.
    (InfraKind.VOLUME, "error mounting"),
    # A failure of the node (docs/design/pod-states.md#row-31-starterror).
    (InfraKind.RUNTIME, "cgroup"),
    (InfraKind.RUNTIME, "context deadline"),
)


def cause(message: str) -> str:
    """What follows the last marker of a runtime's message; the whole message if it has none."""
    return message.rpartition(_MARKER)[2].strip()


def start_failure(message: str) -> InfraKind | None:
    """What failed the start; None if the command did: no such file, no permission, a wrong workdir."""
    text = _NAMES.sub(" ", f" {cause(message)}").lower()
    return next((kind for kind, words in _INFRA if words in text), None)


def missing_for_staging(terminated: ContainerStateTerminated) -> str | None:
    """The program that the image of `senro-stage` does not have; None if the container failed for another reason.

    The runtime reports a missing `sh`, the command itself. Of what the shell runs, only `mkfifo` may be missing.
    """
    if terminated.reason in START_REASONS:
        return "sh" if '"sh"' in cause(terminated.message) and start_failure(terminated.message) is None else None
    return "mkfifo" if terminated.exit_code == MISSING_PROGRAM else None


def names_command(message: str) -> bool:
    """Whether the message says that the command cannot be started, which no repetition changes."""
    return _MARKER in message and start_failure(message) is None
