"""The Lease of a claim: its name, the fields that senro reads, and the manifests that it writes.

For who may write it when, see `senro.domain.claims.lease_protocol`.
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
"""The duration of a Lease, and so how long nobody gets a claim whose coordinator was killed."""

_MOST_TRANSITIONS: Final = 2_147_483_647  # int32

_IDENTITY_PARTS: Final = 4


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Lease. `holder_identity` is empty if nobody has it. Times are of the holder's wall clock."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    lease_transitions: int = 0


class Lease(msgspec.Struct, frozen=True):
    """A Lease, reduced to what senro reads."""

    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()

    @property
    def holder(self) -> str:
        """The holderIdentity, empty if nobody has it."""
        return self.spec.holder_identity

    @property
    def seconds(self) -> int:
        """Its duration: what its holder wrote, else that of senro."""
        written = self.spec.lease_duration_seconds
        return written if written is not None and written > 0 else LEASE_SECONDS

    @property
    def state(self) -> tuple[str, str]:
        """The uid and the resourceVersion, which every write changes."""
        return self.metadata.uid, self.metadata.resource_version


def decode_lease(document: bytes) -> Lease:
    """Decodes a Lease from any JSON. Raises `ValueError` if `document` is not JSON."""
    return decode_object(document, Lease)


@dataclass(frozen=True, slots=True)
class Terms:
    """What an attempt writes into the Lease of a claim.

    `namespace`, `claim`: the namespace and the name of the claim.
    `workspace`: the workspace that the claim replaces.
    `identity`: the attempt.
    `seconds`: the duration.
    """

    namespace: str
    workspace: str
    claim: str
    identity: AttemptIdentity
    seconds: int = LEASE_SECONDS

    @property
    def name(self) -> str:
        """The name of the Lease, which depends on the workspace alone."""
        return names.lease_name(self.workspace)

    @property
    def holder(self) -> str:
        """The holderIdentity: run, step, attempt and nonce."""
        identity = self.identity
        return f"{identity.run_id}/{identity.step_id}/{identity.attempt}/{identity.nonce}"

    def manifest_to_create(self, now: datetime) -> dict[str, Any]:
        """The manifest of a new Lease. `now` is the wall clock, for people."""
        return self._manifest({}, acquired=micro_time(now), renewed=micro_time(now), transitions=0)

    def manifest_to_take_over(self, before: Lease, now: datetime) -> dict[str, Any]:
        """The manifest that takes `before` over, with its uid and resourceVersion."""
        transitions = min(before.spec.lease_transitions + 1, _MOST_TRANSITIONS)
        return self._manifest(_on(before), acquired=micro_time(now), renewed=micro_time(now), transitions=transitions)

    def manifest_to_renew(self, before: Lease, now: datetime) -> dict[str, Any]:
        """The manifest that renews `before`, which this attempt holds."""
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
    """The metadata by which a PUT is a 409 if the Lease has changed (docs/design/api-rules.md#put-and-resourceversion).

    The uid keeps the PUT from creating a Lease that was deleted meanwhile.
    """
    return {"uid": before.metadata.uid, "resourceVersion": before.metadata.resource_version}


def micro_time(moment: datetime) -> str:
    """`moment`, which has a time zone, as a MicroTime with its six decimals (recording lease-lifecycle)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def describe_holder(holder: str) -> str:
    """A holderIdentity for people: step and run if senro wrote it, else the text itself."""
    parts = holder.split("/")
    if len(parts) == _IDENTITY_PARTS and all(parts):
        return printable(f"{parts[1]} of run {parts[0]}")
    return printable(holder) or "nobody"
