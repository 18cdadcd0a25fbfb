"""What a store keeps about an entry of a scratch cache, as a small JSON document."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

LARGEST = 64 * 1024
"""Bytes of a document at most; it has a few hundred. What is longer was not written by senro."""


class ScratchRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`cache` and `key` say what the entry is, wherever it is found; `tree` is the digest of its content.

    The last three belong to a store that keeps the content as one tar: the object's name, its sha256 (64 hexadecimal
    digits) and its length in bytes.
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
"""What `format` says."""


def encode_record(record: ScratchRecord) -> bytes:
    """The record as JSON."""
    return _encoder.encode(record)


def decode_record(data: bytes, cache: str, key: str | None) -> ScratchRecord | None:
    """The record of this cache, under this key if one is given; None for anything else, a newer format included."""
    try:
        record = _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    if record.cache != cache or (key is not None and record.key != key):
        return None
    return record
