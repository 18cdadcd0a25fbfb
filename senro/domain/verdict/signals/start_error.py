"""Why a container could not be started: its command, or the machine under it.

The runtime wraps one cause in many layers, and every one of them says "shim" whatever the cause
(recordings `command-not-found`, `create-container-error`). What follows the innermost marker is the cause.
"""

from __future__ import annotations

import re

from senro.domain.kube.pod import ContainerStateTerminated
from senro.domain.transfer.replies import MISSING_PROGRAM
from senro.domain.verdict.kinds import InfraKind

START_REASONS = frozenset({"StartError", "ContainerCannotRun"})
"""containerd and docker (docs/design/pod-states.md#row-31-starterror and
docs/design/pod-states.md#row-32-containercannotrun); CRI-O fails while creating
(docs/design/pod-states.md#row-153-missing-program-on-containerd-and-cri-o)."""

_MARKER = "unable to start container process:"
# A command or a folder may be called anything, `cgroup` too: what is quoted, and every path, is no evidence.
_NAMES = re.compile(r'"[^"]*"|(?<=[\s(])/[^\s)]*')

_INFRA: tuple[tuple[InfraKind, str], ...] = (
    # Recording create-container-error: a mount on a path whose parent is a file.
    (InfraKind.VOLUME, "error mounting"),
    # The kernel's or the node's trouble (docs/design/pod-states.md#row-31-starterror).
    (InfraKind.RUNTIME, "cgroup"),
    (InfraKind.RUNTIME, "context deadline"),
)


def cause(message: str) -> str:
    """What follows the innermost marker of a runtime's message, the whole where there is none."""
    return message.rpartition(_MARKER)[2].strip()


def start_failure(message: str) -> InfraKind | None:
    """What failed the start, None where it is the command's own: no such file, no permission, a bad workdir."""
    told = _NAMES.sub(" ", f" {cause(message)}").lower()
    return next((kind for kind, words in _INFRA if words in told), None)


def missing_for_staging(terminated: ContainerStateTerminated) -> str | None:
    """The program that `senro-stage` did not find in its image; None where it failed for another cause.

    The runtime names `sh`, which is the container's command; of what the shell runs only mkfifo can be missing.
    """
    if terminated.reason in START_REASONS:
        return "sh" if '"sh"' in cause(terminated.message) and start_failure(terminated.message) is None else None
    return "mkfifo" if terminated.exit_code == MISSING_PROGRAM else None


def names_command(message: str) -> bool:
    """Whether it is the command that could not be started: CRI-O's CreateContainerError repeats it for ever."""
    return _MARKER in message and start_failure(message) is None
