"""The shared store of scratch entries (`SENRO_REMOTE_SCRATCH`): a bucket, or a folder that several machines share.

obstore (the extra `scratch`) is imported when a store is opened, not before.
"""

from __future__ import annotations

from senro.adapters.bucket.configuration import PLACE as REMOTE_SCRATCH
from senro.adapters.bucket.configuration import Location, read_location
from senro.adapters.bucket.opening import open_scratch_store

__all__ = ["REMOTE_SCRATCH", "Location", "open_scratch_store", "read_location"]
