"""The fields of a Kubernetes Event that senro reads. For the events of a run see `senro.domain.run.events`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from senro.domain.kube.pod import decode_object, parse_time


class ObjectReference(msgspec.Struct, frozen=True, rename="camel"):
    """The object that an Event is about.

    `uid`: its uid; its name may have been used before.
    `field_path`: the container that it is about, such as `spec.containers{step}`.
    """

    uid: str = ""
    field_path: str = ""


class EventSeries(msgspec.Struct, frozen=True, rename="camel"):
    """An Event that is repeated: when it was last."""

    last_observed_time: str | None = None


class ClusterEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A report of a component of the cluster about an object. It is best effort and may be missing."""

    reason: str = ""
    message: str = ""
    involved_object: ObjectReference = ObjectReference()
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    series: EventSeries | None = None

    @property
    def moment(self) -> datetime | None:
        """When it was first reported, by the clock of the machine that did."""
        return parse_time(self.event_time) or parse_time(self.first_timestamp)

    @property
    def latest(self) -> datetime | None:
        """When it was last reported, by that clock."""
        repeated = parse_time(self.series.last_observed_time) if self.series is not None else None
        return repeated or parse_time(self.last_timestamp) or self.moment


class _EventList(msgspec.Struct, frozen=True):
    items: tuple[ClusterEvent, ...] = ()


def decode_events(data: bytes) -> tuple[ClusterEvent, ...]:
    """The Events in an EventList, decoded like `decode_pod` does. Raises ValueError if `data` is not JSON."""
    return decode_object(data, _EventList).items
