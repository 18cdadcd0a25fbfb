"""The record of an entry of a scratch cache, a JSON document."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

LARGEST = 64 * 1024
"""Bytes of a document: senro writes a few hundred."""


class ScratchRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of an entry.

    `format`: the format of the record.
    `cache`, `key`: the cache, and the key of the entry.
    `created`: when it was created, with a time zone.
    `tree`: the digest of its content. `archive`, `sha256`, `length`: of a store that keeps the content as one tar: the
    name of the object, its sha256 as 64 hexadecimal digits, and its length in bytes.
    """

    format: Literal["senro scratch 1"]
    cache: str
    key: str
    created: datetime
    tree: str
    archive: str = ""
    sha256: str = ""
    length: int = 0

    def __post_init__(self) -> None:
        if self.created.tzinfo is None:
            raise ValueError("`created` has no zone")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ScratchRecord)


FORMAT: Literal["senro scratch 1"] = "senro scratch 1"
"""The value of `format`."""


def encode_record(record: ScratchRecord) -> bytes:
    """The record as JSON."""
    return _encoder.encode(record)


def decode_record(data: bytes, cache: str, key: str | None) -> ScratchRecord | None:
    """The record, if it is of this cache and, unless `key` is None, of this key; None for anything else."""
    try:
        record = _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    if record.cache != cache or (key is not None and record.key != key):
        return None
    return record
