"""What goes wrong, when a test says so: a fault is armed, counts its uses, and is gone when they are used up."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from senro.devcluster.apiserver.http import Response, text_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.objects import Object

DISRUPTIONS = {
    "Evicted": ("EvictionByEvictionAPI", "Eviction API: evicting"),
    "Preempted": ("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
    "Tainted": ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
}
"""Reasons for `fail_pod`, and the DisruptionTarget condition that each one shows (recordings *-trap-zero)."""

Point = Literal["staging", "running", "reading"]
"""Moments of a pod's life: its stage container runs; its step was started; an exec in its senro-io begins."""

_POINTS = ("staging", "running", "reading")


@dataclass(slots=True)
class Cut:
    """An exec's connection that ends after so many payload bytes in one direction."""

    direction: Literal["stdin", "stdout"]
    left: int

    def take(self, size: int) -> int:
        """How many of `size` bytes still pass."""
        allowed = min(size, self.left)
        self.left -= allowed
        return allowed

    @property
    def done(self) -> bool:
        """Whether the connection has to end now."""
        return self.left == 0


@dataclass(slots=True)
class _Armed:
    times: int
    container: str = ""
    direction: Literal["stdin", "stdout"] = "stdout"
    number: int = 0
    step: str = ""
    reason: str = ""
    point: str = ""
    grace_seconds: int | None = None
    response: Response | None = None
    method: str = ""
    path_contains: str = ""


@dataclass(slots=True)
class Faults:
    """The faults that are armed. Every method may be called from any thread."""

    _armed: dict[str, list[_Armed]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cut_exec(
        self, direction: Literal["stdin", "stdout"], after_bytes: int, *, times: int = 1, container: str = ""
    ) -> None:
        """End the TCP connection of the next `times` execs once so many payload bytes went that way."""
        self._arm("cut", _Armed(times, container, direction, after_bytes))

    def drop_status(self, *, times: int = 1, container: str = "") -> None:
        """Let execs run to their end and close the connection instead of sending the status."""
        self._arm("status", _Armed(times, container))

    def truncate_stdout(self, last_bytes: int, *, times: int = 1, container: str = "") -> None:
        """Lose the end of stdout, with status Success: what v5 does to slow readers (facts/measured.md)."""
        self._arm("truncate", _Armed(times, container, number=last_bytes))

    def refuse_handshake(self, *, times: int = 1) -> None:
        """Answer execs with the 500 of an apiserver that cannot reach its kubelet."""
        self._arm("handshake", _Armed(times))

    def fail_pod(
        self,
        *,
        step: str = "",
        reason: str = "Evicted",
        times: int = 1,
        at: Point = "running",
        grace_seconds: int | None = 1,
    ) -> None:
        """Take away the next `times` pods of a step (label senro.dev/step, annotation senro.dev/step-id, or name).

        `reason` is a key of DISRUPTIONS, `at` a moment of the pod's life; `grace_seconds` None is the pod's own grace.
        """
        _check_point(at)
        if reason not in DISRUPTIONS:
            raise ValueError(f"reason {reason!r} is none of {', '.join(DISRUPTIONS)}")
        self._arm("fail", _Armed(times, step=step, reason=reason, point=at, grace_seconds=grace_seconds))

    def vanish_pod(self, *, step: str = "", times: int = 1, at: Point = "running") -> None:
        """Remove pods with no trace: the object is gone, and so are the processes."""
        _check_point(at)
        self._arm("vanish", _Armed(times, step=step, point=at))

    def lose_create_answer(self, *, step: str = "", times: int = 1) -> None:
        """Create the pod, and close the connection instead of saying so."""
        self._arm("create", _Armed(times, step=step))

    def answer(
        self,
        status: int,
        text: str,
        *,
        times: int = 1,
        method: str = "",
        path_contains: str = "",
        retry_after: int | None = None,
    ) -> None:
        """Answer requests with plain text: 429 as flow control does, 503, and so on."""
        headers = (("retry-after", str(retry_after)),) if retry_after is not None else ()
        response = text_response(status, text, headers)
        self._arm("answer", _Armed(times, response=response, method=method, path_contains=path_contains))

    def drop_connection(self, *, times: int = 1, method: str = "", path_contains: str = "") -> None:
        """Close the connection instead of handling the request."""
        response = Response(0, (), drop=True)
        self._arm("answer", _Armed(times, response=response, method=method, path_contains=path_contains))

    def refuse_connection(self, *, times: int = 1) -> None:
        """Close new connections before their TLS handshake."""
        self._arm("connection", _Armed(times))

    def clear(self) -> None:
        """Disarm everything."""
        with self._lock:
            self._armed.clear()

    def pending(self) -> int:
        """How many uses are left in all."""
        with self._lock:
            return sum(fault.times for faults in self._armed.values() for fault in faults)

    # --- what the cluster asks ---------------------------------------------------------------------------------

    def admits_connection(self) -> bool:
        """Whether a new connection is let in."""
        return self._use("connection", lambda _: True) is None

    def answer_for(self, request: Request) -> Response | None:
        """The answer that takes the place of the real one, or None."""

        def fits(fault: _Armed) -> bool:
            return fault.method in {"", request.method} and fault.path_contains in request.path

        found = self._use("answer", fits)
        return found.response if found is not None else None

    def refuses_handshake(self) -> bool:
        """Whether this exec is refused."""
        return self._use("handshake", lambda _: True) is not None

    def exec_cut(self, container: str) -> Cut | None:
        """Where this exec's connection ends, or None."""
        found = self._use("cut", lambda fault: fault.container in {"", container})
        return Cut(found.direction, found.number) if found is not None else None

    def drops_status(self, container: str) -> bool:
        """Whether this exec's status is lost."""
        return self._use("status", lambda fault: fault.container in {"", container}) is not None

    def stdout_kept_back(self, container: str) -> int:
        """How many bytes of the end of stdout are lost."""
        found = self._use("truncate", lambda fault: fault.container in {"", container})
        return found.number if found is not None else 0

    def loses_create_answer(self, pod: Object) -> bool:
        """Whether the answer to this pod's creation is lost."""
        return self._use("create", lambda fault: _is_of_step(pod, fault.step)) is not None

    def disruption(self, pod: Object, point: str) -> tuple[str, int | None] | None:
        """The reason and grace with which this pod is taken away now, or None."""
        found = self._use("fail", lambda fault: fault.point == point and _is_of_step(pod, fault.step))
        return (found.reason, found.grace_seconds) if found is not None else None

    def vanishes(self, pod: Object, point: str) -> bool:
        """Whether this pod vanishes now."""
        found = self._use("vanish", lambda fault: fault.point == point and _is_of_step(pod, fault.step))
        return found is not None

    def _arm(self, kind: str, fault: _Armed) -> None:
        if fault.times < 1:
            raise ValueError("times must be at least 1")
        with self._lock:
            self._armed.setdefault(kind, []).append(fault)

    def _use(self, kind: str, fits: Callable[[_Armed], bool]) -> _Armed | None:
        with self._lock:
            for fault in self._armed.get(kind, ()):
                if fits(fault):
                    fault.times -= 1
                    if fault.times == 0:
                        self._armed[kind].remove(fault)
                    return fault
        return None


def _check_point(at: str) -> None:
    if at not in _POINTS:
        raise ValueError(f"at {at!r} is none of {', '.join(_POINTS)}")


def _is_of_step(pod: Object, step: str) -> bool:
    meta = pod["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return step in {"", labels.get("senro.dev/step"), annotations.get("senro.dev/step-id"), meta["name"]}
