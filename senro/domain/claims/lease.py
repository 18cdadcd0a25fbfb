"""The Lease that says which step has a claim: its name, its fields as they are read, and what is written.

Nothing is enforced by an apiserver but a Lease's resourceVersion: who may take it, and when, is
`senro.domain.claims.lease_protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from senro.domain.kube import names
from senro.domain.kube.pod import Metadata, decode_object
from senro.domain.manifests.identity import AttemptIdentity
from senro.domain.text.printable import printable

LEASE_SECONDS: Final = 60
"""How long a lease lives that is not renewed, and so how long a claim stays shut whose coordinator was killed."""

_MOST_TRANSITIONS: Final = 2_147_483_647  # int32

_IDENTITY_PARTS: Final = 4


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Whose it is. An empty `holder_identity` is a lease that was given back. Times are its holder's wall clock."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    lease_transitions: int = 0


class Lease(msgspec.Struct, frozen=True):
    """A Lease as the apiserver sent it, reduced to what senro reads."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        """Who has it; empty for nobody."""
        return self.spec.holder_identity

    @property
    def seconds(self) -> int:
        """How long it lives unrenewed: what its holder wrote, senro's own where that is nothing."""
        written = self.spec.lease_duration_seconds
        return written if written is not None and written > 0 else LEASE_SECONDS

    @property
    def state(self) -> tuple[str, str]:
        """What changes with every write: the uid and the resourceVersion."""
        return self.metadata.uid, self.metadata.resource_version


def decode_lease(document: bytes) -> Lease:
    """The Lease in `document`. Raises `ValueError` where that is no JSON object; odd fields are their defaults."""
    return decode_object(document, Lease)


@dataclass(frozen=True, slots=True)
class Terms:
    """What one attempt writes into the Lease of one claim. `holder` is the attempt, by its nonce like no other."""

    namespace: str
    workspace: str
    claim: str
    identity: AttemptIdentity
    seconds: int = LEASE_SECONDS

    @property
    def name(self) -> str:
        """The Lease's name, the same for all that call the workspace alike."""
        return names.lease_name(self.workspace)

    @property
    def holder(self) -> str:
        """The holderIdentity: run, step, attempt and nonce."""
        identity = self.identity
        return f"{identity.run_id}/{identity.step_id}/{identity.attempt}/{identity.nonce}"

    def manifest_to_create(self, now: datetime) -> dict[str, Any]:
        """The Lease that there was none of; `now` is the wall clock, for people to read."""
        return self._manifest({}, acquired=micro_time(now), renewed=micro_time(now), transitions=0)

    def manifest_to_take_over(self, before: Lease, now: datetime) -> dict[str, Any]:
        """The Lease that `before` becomes when it is taken over, on its uid and resourceVersion."""
        transitions = min(before.spec.lease_transitions + 1, _MOST_TRANSITIONS)
        return self._manifest(_on(before), acquired=micro_time(now), renewed=micro_time(now), transitions=transitions)

    def manifest_to_renew(self, before: Lease, now: datetime) -> dict[str, Any]:
        """The Lease that is ours already, once more."""
        acquired = before.spec.acquire_time or micro_time(now)
        transitions = before.spec.lease_transitions
        return self._manifest(_on(before), acquired=acquired, renewed=micro_time(now), transitions=transitions)

    def _manifest(self, on: Mapping[str, str], *, acquired: str, renewed: str, transitions: int) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": self.identity.labels,
                "annotations": {
                    **self.identity.annotations,
                    names.WORKSPACE_ANNOTATION: self.workspace,
                    names.CLAIM_ANNOTATION: self.claim,
                },
                **on,
            },
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self.seconds,
                "acquireTime": acquired,
                "renewTime": renewed,
                "leaseTransitions": transitions,
            },
        }


def _on(before: Lease) -> dict[str, str]:
    """What makes a PUT a 409 where the Lease is not as it was.

    The resourceVersion is a Lease's duty there; the uid keeps a PUT from creating one that was deleted meanwhile
    (docs/design/api-rules.md#put-and-resourceversion).
    """
    return {"uid": before.metadata.uid, "resourceVersion": before.metadata.resource_version}


def micro_time(moment: datetime) -> str:
    """`moment`, which has a zone, as a MicroTime, which has six decimals (recording lease-lifecycle)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def describe_holder(holder: str) -> str:
    """A holderIdentity for a person: the step and its run where senro wrote it, else as it stands."""
    parts = holder.split("/")
    if len(parts) == _IDENTITY_PARTS and all(parts):
        return printable(f"{parts[1]} of run {parts[0]}")
    return printable(holder) or "nobody"
