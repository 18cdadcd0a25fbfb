"""Leases from documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from senro.domain.claims.lease import Lease, decode_lease


def lease_of(document: Mapping[str, Any]) -> Lease:
    """Decodes a Lease from its document."""
    return decode_lease(json.dumps(document).encode())
