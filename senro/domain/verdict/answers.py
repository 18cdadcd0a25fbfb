"""The answers of a verdict (docs/design/verdicts.md#answers). A `settled` answer never changes again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from senro.domain.verdict.kind_table import INFRA_KINDS
from senro.domain.verdict.kinds import DidRun, InfraKind, Note, PendingKind


@dataclass(frozen=True, slots=True)
class Pending:
    """The step does not run yet.

    `kind`: what it waits for.
    `container`: the container that waits, empty if it is the whole pod.
    `message`: what the cluster says.
    `permanent`: whether waiting longer is useless; always False for a container that senro did not ask for.
    `growing`: whether an Event says that an autoscaler adds a node for this pod.
    """

    settled: ClassVar[bool] = False

    kind: PendingKind
    container: str = ""
    message: str = ""
    permanent: bool = False
    growing: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """The step's process runs, or its end is not certain yet.

    `finishing`: the process has ended; senro waits up to 20 s for the phase of the pod (row 9).
    """

    settled: ClassVar[bool] = False

    finishing: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """The cluster is ending the pod, and its process may still run. Nothing is repeated before it has ended or is gone.

    `kind`: what ends the pod.
    `message`: what the cluster says.
    """

    settled: ClassVar[bool] = False

    kind: InfraKind
    message: str = ""


@dataclass(frozen=True, slots=True)
class Exited:
    """The command ended by itself.

    `code`: its exit code.
    `notes`: what a person should know.
    `message`: what the runtime says, if `notes` has `start-error`.
    """

    settled: ClassVar[bool] = True

    code: int
    notes: tuple[Note, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Infra:
    """The cluster failed the step.

    `kind`: how.
    `did_run`: whether the command ran.
    `may_be_alive`: its process may still run on `node`, which does not report, so repeating the step is unsafe.
    `message`: what the cluster says.
    `node`: the node of the pod, empty if it had none.
    `notes`: what a person should know.
    `code`: the exit code of the container, if it had one. It is evidence only.
    """

    settled: ClassVar[bool] = True

    kind: InfraKind
    did_run: DidRun
    may_be_alive: bool = False
    message: str = ""
    node: str = ""
    notes: tuple[Note, ...] = ()
    code: int | None = None

    @property
    def hint(self) -> str:
        """What a person can do, one sentence."""
        return INFRA_KINDS[self.kind].hint


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The step ran longer than its timeout, by the coordinator's clock or by the deadline that senro gave the pod."""

    settled: ClassVar[bool] = True


Answer = Pending | Running | Ending | Exited | Infra | TimedOut
"""Every answer."""
