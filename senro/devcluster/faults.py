"""What goes wrong, when a test says so: a fault is armed, counts its uses, and is gone when they are used up."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal

from senro.devcluster.apiserver.http import Response, json_response, text_response
from senro.devcluster.apiserver.status import unauthorized
from senro.devcluster.fault_points import FAULT_POINTS
from senro.devcluster.kubelet.disruptions import DISRUPTIONS
from senro.devcluster.random_faults import draw_faults
from senro.domain.kube.names import STEP_ID_ANNOTATION, STEP_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.objects import Object
    from senro.devcluster.random_faults import FaultSpec


@dataclass(frozen=True, slots=True)
class PodFault:
    """What a fault does to a pod: the disruption by its name, "" for one that vanishes without a trace."""

    reason: str
    grace_seconds: int | None
    traps_term: bool


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
    seconds: float = 0.0
    step: str = ""
    reason: str = ""
    point: str = ""
    grace_seconds: int | None = None
    response: Response | None = None
    method: str = ""
    path_contains: str = ""

    def fits(self, request: Request) -> bool:
        """Whether this fault is armed for such a request."""
        return self.method in {"", request.method} and self.path_contains in request.path


@dataclass(slots=True)
class Faults:
    """The faults that are armed. Every method may be called from any thread."""

    _armed: dict[str, list[_Armed]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cut_exec(
        self,
        direction: Literal["stdin", "stdout"],
        after_bytes: int,
        *,
        times: int = 1,
        container: str = "",
        step: str = "",
    ) -> None:
        """End the TCP connection of the next `times` execs once so many payload bytes went that way.

        The faults of execs are for those in a container of that name, in a pod of that step, where one is named.
        """
        self._arm("cut", _Armed(times, container, direction, after_bytes, step=step))

    def drop_status(self, *, times: int = 1, container: str = "", step: str = "") -> None:
        """Let execs run to their end and close the connection instead of sending the status."""
        self._arm("status", _Armed(times, container, step=step))

    def delay_status(self, seconds: float, *, times: int = 1, container: str = "", step: str = "") -> None:
        """Send the status so many seconds of the cluster's clock after the command's end and its last output."""
        if seconds <= 0:
            raise ValueError("seconds must be more than 0")
        self._arm("late", _Armed(times, container, seconds=seconds, step=step))

    def hasten_status(self, last_bytes: int, *, times: int = 1, container: str = "", step: str = "") -> None:
        """Send the status before the last bytes of stdout, which come between it and the close frame."""
        self._arm("early", _Armed(times, container, number=last_bytes, step=step))

    def truncate_stdout(self, last_bytes: int, *, times: int = 1, container: str = "", step: str = "") -> None:
        """Lose the end of stdout, with status Success: what v5 does to slow readers.

        See docs/design/measurements.md#slow-readers-lose-output-on-v5.
        """
        self._arm("truncate", _Armed(times, container, number=last_bytes, step=step))

    def cut_log(self, after_bytes: int, *, times: int = 1, container: str = "") -> None:
        """End the connection of a log, followed or read, as it passes this byte of the log.

        Bytes as they are served, counted from the beginning of the file that is the newest when the log is asked for,
        what `sinceTime` and `tailLines` leave out included: a log that is resumed behind the place is not cut there. A
        log that ends before it, be it by `limitBytes`, leaves the fault armed.
        """
        if after_bytes < 0:
            raise ValueError("after_bytes must not be negative")
        self._arm("log", _Armed(times, container, number=after_bytes))

    def refuse_handshake(self, *, times: int = 1, container: str = "", step: str = "") -> None:
        """Answer execs with the 500 of an apiserver that cannot reach its kubelet."""
        self._arm("handshake", _Armed(times, container, step=step))

    def fail_pod(
        self,
        *,
        step: str = "",
        reason: str = "Evicted",
        times: int = 1,
        at: str = "middle",
        grace_seconds: int | None = 1,
    ) -> None:
        """Take away the next `times` pods of a step (label senro.dev/step, annotation senro.dev/step-id, or name).

        `reason` is a key of DISRUPTIONS, `at` one of FAULT_POINTS; `grace_seconds` None is the pod's own grace.
        """
        _check_point(at)
        if reason not in DISRUPTIONS:
            raise ValueError(f"reason {reason!r} is none of {', '.join(DISRUPTIONS)}")
        self._arm("fail", _Armed(times, step=step, reason=reason, point=at, grace_seconds=grace_seconds))

    def vanish_pod(self, *, step: str = "", times: int = 1, at: str = "middle") -> None:
        """Remove pods with no trace: the object is gone, and so are the processes."""
        _check_point(at)
        self._arm("vanish", _Armed(times, step=step, point=at))

    def repeat_stage(self, *, step: str = "", times: int = 1) -> None:
        """Run the init container of a pod again once it has succeeded, in its volumes as they are.

        So does a kubelet whose runtime has lost what it knew of it: the same container has another containerID then.
        """
        self._arm("repeat", _Armed(times, step=step))

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

    def lose_answer(self, *, times: int = 1, method: str = "", path_contains: str = "") -> None:
        """Handle the request, and close the connection instead of answering: what it wrote took effect."""
        self._arm("lost", _Armed(times, method=method, path_contains=path_contains))

    def throttle(
        self, *, times: int = 1, method: str = "", path_contains: str = "", retry_after: int | None = 1
    ) -> None:
        """Answer as flow control does: 429 in plain text, with Retry-After (docs/design/api-rules.md#throttling)."""
        text = "Too many requests, please try again later.\n"
        self.answer(429, text, times=times, method=method, path_contains=path_contains, retry_after=retry_after)

    def expire_token(self, *, times: int = 1, method: str = "", path_contains: str = "") -> None:
        """Answer 401 as for a token that has expired."""
        response = json_response(401, unauthorized().status)
        self._arm("answer", _Armed(times, response=response, method=method, path_contains=path_contains))

    def refuse_connection(self, *, times: int = 1) -> None:
        """Close new connections before their TLS handshake."""
        self._arm("connection", _Armed(times))

    def arm_random(self, seed: int | str, steps: Sequence[str] = (), *, at_most: int = 3) -> tuple[FaultSpec, ...]:
        """Arm faults that are drawn from the seed, and return them. The same seed arms the same faults.

        `steps`: the ids of the steps whose pods may be taken away; if empty, any step's.
        """
        drawn = draw_faults(seed, steps, at_most=at_most)
        for name, arguments in drawn:
            getattr(self, name)(**arguments)
        return drawn

    def clear(self) -> None:
        """Disarm everything."""
        with self._lock:
            self._armed.clear()

    def pending(self, *, step: str = "") -> int:
        """How many uses are left in all, or of the faults that were armed for that step."""
        with self._lock:
            armed = chain.from_iterable(self._armed.values())
            return sum(fault.times for fault in armed if step in {"", fault.step})

    # --- what the cluster asks ---------------------------------------------------------------------------------

    def admits_connection(self) -> bool:
        """Whether a new connection is let in."""
        return self._use("connection", lambda _: True) is None

    def answer_for(self, request: Request) -> Response | None:
        """The answer that takes the place of the real one, or None."""
        found = self._use("answer", lambda fault: fault.fits(request))
        return found.response if found is not None else None

    def instead_of(self, request: Request, answer: Answer) -> Answer:
        """The answer, or nothing where it is lost on its way; an exec's own faults are others."""
        if isinstance(answer, Response) and self._use("lost", lambda fault: fault.fits(request)) is not None:
            return Response(0, (), drop=True)
        return answer

    def refuses_handshake(self, pod: Object, container: str) -> bool:
        """Whether this exec is refused."""
        return self._use_for("handshake", pod, container) is not None

    def exec_cut(self, pod: Object, container: str) -> Cut | None:
        """Where this exec's connection ends, or None."""
        found = self._use_for("cut", pod, container)
        return Cut(found.direction, found.number) if found is not None else None

    def log_cut(self, container: str, start: int, end: int) -> int | None:
        """Where this container's log is cut between two of its bytes, the first such place; None where it is not."""

        def fits(fault: _Armed) -> bool:
            return fault.container in {"", container} and start <= fault.number <= end

        with self._lock:
            places = [fault.number for fault in self._armed.get("log", ()) if fits(fault)]
        if not places:
            return None
        found = self._use("log", lambda fault: fits(fault) and fault.number == min(places))
        return found.number if found is not None else None

    def drops_status(self, pod: Object, container: str) -> bool:
        """Whether this exec's status is lost."""
        return self._use_for("status", pod, container) is not None

    def status_delay(self, pod: Object, container: str) -> float:
        """Seconds by which this exec's status is late."""
        found = self._use_for("late", pod, container)
        return found.seconds if found is not None else 0.0

    def stdout_after_status(self, pod: Object, container: str) -> int:
        """How many bytes of the end of stdout come after the status."""
        found = self._use_for("early", pod, container)
        return found.number if found is not None else 0

    def stdout_kept_back(self, pod: Object, container: str) -> int:
        """How many bytes of the end of stdout are lost."""
        found = self._use_for("truncate", pod, container)
        return found.number if found is not None else 0

    def repeats_stage(self, pod: Object) -> bool:
        """Whether an init container of this pod that has succeeded is run again."""
        return self._use_for("repeat", pod, "") is not None

    def loses_create_answer(self, pod: Object) -> bool:
        """Whether the answer to this pod's creation is lost."""
        return self._use("create", lambda fault: _is_of_step(pod, fault.step)) is not None

    def disruption(self, pod: Object, point: str, container: str) -> PodFault | None:
        """What happens to this pod as it passes that point with that container, or None."""

        def fits(fault: _Armed) -> bool:
            there = point in {fault.point, "middle" if fault.point == "term" else ""}
            return there and _is_the_moment(pod, point, container) and _is_of_step(pod, fault.step)

        if self._use("vanish", fits) is not None:
            return PodFault("", None, traps_term=False)
        found = self._use("fail", fits)
        if found is None:
            return None
        return PodFault(found.reason, found.grace_seconds, traps_term=found.point == "term")

    def _arm(self, kind: str, fault: _Armed) -> None:
        if fault.times < 1:
            raise ValueError("times must be at least 1")
        with self._lock:
            self._armed.setdefault(kind, []).append(fault)

    def _use_for(self, kind: str, pod: Object, container: str) -> _Armed | None:
        return self._use(kind, lambda fault: fault.container in {"", container} and _is_of_step(pod, fault.step))

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
    if at not in FAULT_POINTS:
        raise ValueError(f"at {at!r} is none of {', '.join(FAULT_POINTS)}")


def _is_the_moment(pod: Object, moment: str, container: str) -> bool:
    """Whether this container is the one that a point speaks of."""
    spec = pod["spec"]
    if moment in {"scheduling", "delete"}:
        return True
    if moment == "read-back":
        return container == "senro-io"
    if moment in {"stage", "release"}:
        return container in {entry["name"] for entry in spec.get("initContainers") or []}
    if moment == "image":
        return container == str([*(spec.get("initContainers") or []), *spec["containers"]][0]["name"])
    return container in {"step", spec["containers"][0]["name"]}


def _is_of_step(pod: Object, step: str) -> bool:
    meta = pod["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return step in {"", labels.get(STEP_LABEL), annotations.get(STEP_ID_ANNOTATION), meta["name"]}
