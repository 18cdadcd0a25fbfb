"""The fields of a Kubernetes Event that senro reads. A line of senro's own ledger is another thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from senro.domain.kube.pod import decode_object, parse_time

if TYPE_CHECKING:
    from datetime import datetime


class ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    """What the Event is about. A pod's name may have been used before; its uid tells.

    `field_path` names the container, as `spec.containers{step}`, where it is about one.
    """

    uid: str = ""
    field_path: str = ""


class EventSeries(msgspec.Struct, frozen=True, rename="camel"):
    """An Event that is said again and again is one object; this is when it was said last."""

    last_observed_time: str | None = None


class ClusterEvent(msgspec.Struct, frozen=True, rename="camel"):
    """Something that a component of the cluster said about an object. Best effort: it may be missing."""

    reason: str = ""
    message: str = ""
    involved_object: ObjectReference = ObjectReference()
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    series: EventSeries | None = None

    @property
    def moment(self) -> datetime | None:
        """When it was first said, by the clock of the machine that said it."""
        return parse_time(self.event_time) or parse_time(self.first_timestamp)

    @property
    def latest(self) -> datetime | None:
        """When it was said last, by that clock: the newer way of counting first, then the older."""
        repeated = parse_time(self.series.last_observed_time) if self.series is not None else None
        return repeated or parse_time(self.last_timestamp) or self.moment


class _EventList(msgspec.Struct, frozen=True):
    items: tuple[ClusterEvent, ...] = ()


def decode_events(data: bytes) -> tuple[ClusterEvent, ...]:
    """The Events in an EventList; total over JSON as `decode_pod` is, ValueError where `data` is not JSON."""
    return decode_object(data, _EventList).items
