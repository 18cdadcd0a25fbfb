"""The archives that carry trees into a pod and back: members named `<index>/<path>`, one index for each tree.

`writer` makes the bytes of a member and tells their number beforehand; `reader` turns bytes, cut anywhere, into
events and refuses whatever must not be unpacked; `manifest` holds the rules between members and says what came.
No file is touched here.
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
