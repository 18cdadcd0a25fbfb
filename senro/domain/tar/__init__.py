"""The archives of transfers (docs/design/transfers.md#archive), without any I/O.

`writer` makes the bytes of a member. `reader` parses bytes into events and refuses what must not be unpacked.
`admission` has the rules between members.
"""

from __future__ import annotations

from senro.domain.tar.admission import AdmittedTree, ArchiveAdmission, Placement
from senro.domain.tar.reader import ArchiveReader, Data, EndOfArchive, EndOfMember, Event, Member
from senro.domain.tar.writer import END, archive_length, member_header, padding

__all__ = [
    "END",
    "AdmittedTree",
    "ArchiveAdmission",
    "ArchiveReader",
    "Data",
    "EndOfArchive",
    "EndOfMember",
    "Event",
    "Member",
    "Placement",
    "archive_length",
    "member_header",
    "padding",
]
