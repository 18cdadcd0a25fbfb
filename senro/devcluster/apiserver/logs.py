"""GET pods/log: the newest file's records, followed or not (recordings logs, logs-interrupted)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.http import AbortedError, Response, audited, json_response
from senro.devcluster.apiserver.integers import parse_integer
from senro.devcluster.apiserver.status import Cause, bad_request, failure, invalid
from senro.devcluster.clock import nanoseconds_text
from senro.devcluster.containers.log import CutOffError, LogFilter, tail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.clock import Clock
    from senro.devcluster.containers.log import ContainerLog
    from senro.devcluster.faults import Faults
    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.kubelet.status import ContainerState
    from senro.devcluster.objects import Object

_TEXT = (("content-type", "text/plain"), ("transfer-encoding", "chunked"))


def read_log(request: Request, pod: Object, kubelet: Kubelet, clock: Clock, faults: Faults) -> Response:
    """Answer with the log, as a stream."""
    name = pod["metadata"]["name"]
    options = _options(request, name, clock)
    container = container_name(request, pod)
    if not pod["spec"].get("nodeName"):
        return Response(204, audited())
    if address := kubelet.unreachable(pod):
        where = f"{pod['metadata']['namespace']}/{name}/{container}"
        refused = f"dial tcp {address}:10250: connect: connection refused"
        unreached = failure(500, "", f'Get "https://{address}:10250/containerLogs/{where}": {refused}')
        del unreached["reason"]
        return json_response(500, unreached)
    worker = kubelet.worker(pod)
    log = worker.log_of(container) if worker is not None else None
    state = worker.state_of(container) if worker is not None else None
    if log is not None and state is not None and log.lost:
        # The 200 is out before the kubelet looks: what then goes wrong stands in the body, as text.
        words = f"unable to retrieve container logs for {log.container_id}"
        return Response(200, (*audited(), *_TEXT), _in_band(words))
    if log is None or state is None or not state.container_id:
        raise bad_request(_not_started(name, container, state))
    pieces = _cut(_stream(log, options), container, faults)
    return Response(200, (*audited(), *_TEXT), pieces)


def container_name(request: Request, pod: Object) -> str:
    """The container asked for, or the only one; 400 for one that is not there.

    See docs/design/exec-protocol.md#failures-before-the-upgrade.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    regular = [container["name"] for container in spec["containers"]]
    initial = [container["name"] for container in spec.get("initContainers") or []]
    asked = request.parameter("container")
    if not asked:
        if len(regular) == 1:
            return str(regular[0])
        choice = f"choose one of: [{' '.join(regular)}]"
        if initial:
            choice += f" or one of the init containers: [{' '.join(initial)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choice}")
    if asked not in regular and asked not in initial:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked


class _Options:
    __slots__ = ("follow", "limit", "since", "tail", "timestamps")

    def __init__(self, *, follow: bool, timestamps: bool, since: str, tail: int | None, limit: int | None) -> None:
        self.follow = follow
        self.timestamps = timestamps
        self.since = since
        self.tail = tail
        self.limit = limit


def _options(request: Request, name: str, clock: Clock) -> _Options:
    causes: list[Cause] = []
    if request.parameter("stream") is not None:
        causes.append(Cause.forbidden("stream", "may not be specified"))
    lines = _number(request, "tailLines", 0, "must be greater than or equal to 0", causes)
    limit = _number(request, "limitBytes", 1, "must be greater than 0", causes)
    seconds = _number(request, "sinceSeconds", 1, "must be greater than 0", causes)
    since_time = request.parameter("sinceTime")
    if seconds is not None and since_time is not None:
        causes.append(Cause.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if causes:
        raise invalid("PodLogOptions", name, causes)
    since = ""
    if seconds is not None:
        since = nanoseconds_text(clock.nanoseconds() - seconds * 1_000_000_000)
    elif since_time is not None:
        since = nanoseconds_text(_whole_seconds(since_time) * 1_000_000_000)
    if request.flag("previous"):
        container = request.parameter("container") or ""
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    return _Options(
        follow=request.flag("follow"), timestamps=request.flag("timestamps"), since=since, tail=lines, limit=limit
    )


def _number(request: Request, parameter: str, least: int, rule: str, causes: list[Cause]) -> int | None:
    text = request.parameter(parameter)
    if text is None:
        return None
    number = parse_integer(text)
    if number < least:
        causes.append(Cause.invalid(parameter, text, rule))
    return number


def _whole_seconds(text: str) -> int:
    """SinceTime is cut to whole seconds on its way to the kubelet (docs/design/api-rules.md#log-parameters)."""
    head, dot, fraction = text.partition(".")
    zone = fraction.lstrip("0123456789") if dot else ""
    try:
        moment = datetime.fromisoformat(head + zone)
    except ValueError:
        raise bad_request(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))


def _not_started(name: str, container: str, state: ContainerState | None) -> str:
    if state is None:
        return f'container "{container}" in pod "{name}" is not available'
    words = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }
    waiting = words.get(state.waiting, state.waiting)
    return f'container "{container}" in pod "{name}" is waiting to start: {waiting}'


async def _in_band(words: str) -> AsyncIterator[bytes]:
    yield words.encode()


async def _stream(log: ContainerLog, options: _Options) -> AsyncIterator[tuple[bytes, int]]:
    """What goes out, piece by piece, and how far into the log each piece comes."""
    chosen = LogFilter(timestamps=options.timestamps, since=options.since, limit=options.limit)
    position = 0
    if options.tail is not None:
        before = log.read_all()
        position = len(before)
        kept = tail(before, options.tail)
        chosen.passed = len(LogFilter(timestamps=options.timestamps).apply(before[: position - len(kept)]))
        yield chosen.apply(kept), chosen.passed
        if not options.follow or chosen.full:
            return
    try:
        async for records in log.records(follow=options.follow, position=position):
            yield chosen.apply(records), chosen.passed
            if chosen.full:
                return
    except CutOffError as error:
        raise AbortedError from error


async def _cut(pieces: AsyncIterator[tuple[bytes, int]], container: str, faults: Faults) -> AsyncIterator[bytes]:
    """The pieces' bytes, up to the place where a fault ends the connection."""
    async for piece, passed in pieces:
        place = faults.log_cut(container, passed - len(piece), passed)
        if out := piece if place is None else piece[: len(piece) - (passed - place)]:
            yield out
        if place is not None:
            raise AbortedError
