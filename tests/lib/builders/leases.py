"""Leases as documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from senro.domain.claims.lease import Lease, decode_lease


def lease_of(document: Mapping[str, Any]) -> Lease:
    """The Lease of a document that a test made."""
    return decode_lease(json.dumps(document).encode())
