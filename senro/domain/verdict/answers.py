"""What can be said of a step at one moment. `settled` answers stand for ever; the others are answers so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from senro.domain.verdict.kind_table import INFRA_KINDS
from senro.domain.verdict.kinds import DidRun, InfraKind, Note, PendingKind


@dataclass(frozen=True, slots=True)
class Pending:
    """The step does not run yet.

    `container` names the one that is stuck, empty while the pod has no node. `message` is the cluster's own words.
    `permanent`: waiting longer cannot help; always False where the container is not senro's. `growing`: an autoscaler
    said in an Event that it adds a node for this pod.
    """

    settled: ClassVar[bool] = False

    kind: PendingKind
    container: str = ""
    message: str = ""
    permanent: bool = False
    growing: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """The step's process runs; with `finishing` it ended and the cluster's last word on it is awaited (20 s)."""

    settled: ClassVar[bool] = False

    finishing: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """The cluster is taking the pod away and the process may live: no retry until it has ended or is gone."""

    settled: ClassVar[bool] = False

    kind: InfraKind
    message: str = ""


@dataclass(frozen=True, slots=True)
class Exited:
    """The command's own verdict. `message` is the runtime's words where `start-error` is among the notes."""

    settled: ClassVar[bool] = True

    code: int
    notes: tuple[Note, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Infra:
    """The cluster failed the step.

    `may_be_alive`: its process may still run on `node`, which fell silent; repeating it then is unsafe until the
    pod is known to be gone, which only who deletes it learns. `message` is the cluster's own words. `code` is the exit
    code that the container showed, kept as evidence and judged by nobody.
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
        """What a person can do about it, one sentence."""
        return INFRA_KINDS[self.kind].hint


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The step ran longer than it may, by the coordinator's clock or by the pod's own deadline."""

    settled: ClassVar[bool] = True


Answer = Pending | Running | Ending | Exited | Infra | TimedOut
"""The closed set."""
