"""Archives and packed streams that a hostile or broken pod may send, and what each must come to.

A table with a line for each: more than 500 lines, since one that is missing shows where all stand together.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys
import zlib
from typing import NamedTuple, Protocol

from senro.domain.tar.writer import END
from senro.domain.text.printable import printable
from senro.domain.tree.tree import Entry, Tree
from tests.lib.archives.files import directory, file, link, pax, tar_member

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Hostile(NamedTuple):
    """An archive that a pod may send, and what senro must do with it.

    `data`: the bytes.
    `rule`: the rule that refuses them; empty if they are accepted.
    `tree`, `omitted`: the result otherwise, as `Tree` and `Tree.omitted`.
    """

    data: bytes
    rule: str = ""
    tree: Tree = Tree()
    omitted: tuple[tuple[str, str], ...] = ()


def signed_sum(member: bytes) -> bytes:
    """Returns the member with the checksum of old tars, which summed signed bytes."""
    header = member[:148] + b" " * 8 + member[156:512]
    total = sum(struct.unpack("512b", header))
    return member[:148] + b"%06o\0 " % (total % (1 << 18)) + member[156:]


def long_name(name: bytes, kind: bytes = b"L") -> bytes:
    """Returns GNU's extra header for a name or link target that is too long for the header."""
    return tar_member("././@LongLink", kind, name + b"\0")


# Members. Others may precede each of them, and two end blocks follow.
_MEMBERS: dict[str, tuple[str, bytes]] = {
    "up": ("path", tar_member("0/../b")),
    "up at once": ("path", tar_member("../b")),
    "up at the end": ("path", tar_member("0/a/..", b"5")),
    "absolute": ("path", tar_member("/etc/passwd")),
    "empty segment": ("path", tar_member("0//a")),
    "dot segment": ("path", tar_member("0/./a")),
    "a file with a slash": ("path", tar_member("0/a/")),
    "no name": ("path", tar_member(b"")),
    "the root as a file": ("path", tar_member("0")),
    "the root as a link": ("path", tar_member("0", b"2", target="/")),
    "another index": ("index", tar_member("7/a")),
    "no index": ("index", tar_member("a")),
    "an index in another form": ("index", tar_member("00/a")),
    "NUL in a PAX name": ("path", tar_member("p", b"x", pax(path=b"0/a\0b")) + tar_member()),
    "NUL in a long name": ("path", tar_member("p", b"L", b"0/a\0b\0") + tar_member()),
    "NUL in a long target": ("link", tar_member("p", b"K", b"a\0b\0") + tar_member("0/a", b"2")),
    "up in a long name": ("path", tar_member("p", b"L", b"0/../b\0") + tar_member()),
    "up in a PAX name": ("path", tar_member("p", b"x", pax(path=b"0/../b")) + tar_member()),
    "a name past PATH_MAX": ("limit", tar_member("p", b"L", b"0/" + b"a/" * 2048) + tar_member()),
    "a target past PATH_MAX": ("limit", tar_member("p", b"K", b"a/" * 2048) + tar_member("0/a", b"2")),
    "an absolute link": ("link", tar_member("0/a", b"2", target="/etc/passwd")),
    "a link out": ("link", tar_member("0/a", b"2", target="../1/a")),
    "a link out by a detour": ("link", tar_member("0/a", b"2", target="b/../../c")),
    "a link without a target": ("link", tar_member("0/a", b"2")),
    "an absolute PAX target": ("link", tar_member("p", b"x", pax(linkpath=b"/etc")) + tar_member("0/a", b"2")),
    "links that lead out together": (
        "link",
        tar_member("0/d", b"5") + tar_member("0/d/up", b"2", target="..") + tar_member("0/a", b"2", target="d/up/../x"),
    ),
    "a write through a link": ("parent", tar_member("0/a", b"2", target="b") + tar_member("0/a/c", content=b"x")),
    "a directory through a link": ("parent", tar_member("0/a", b"2", target="b") + tar_member("0/a/c", b"5")),
    "a file in a file": ("parent", tar_member("0/a") + tar_member("0/a/b")),
    "a hard link to nothing": ("hardlink", tar_member("0/a", b"1", target="0/b")),
    "a hard link to itself": ("hardlink", tar_member("0/a") + tar_member("0/a", b"1", target="0/a")),
    "a hard link to a directory": ("hardlink", tar_member("0/d", b"5") + tar_member("0/a", b"1", target="0/d")),
    "a hard link out": ("path", tar_member("0/a", b"1", target="0/../../etc/passwd")),
    "an absolute hard link": ("path", tar_member("0/a", b"1", target="/etc/passwd")),
    "a hard link to a root": ("path", tar_member("0/a", b"1", target="0")),
    "a directory again as a link": ("duplicate", tar_member("0/a", b"5") + tar_member("0/a", b"2", target="b")),
    "a link again as a file": ("duplicate", tar_member("0/a", b"2", target="b") + tar_member("0/a")),
    "a parent again as a file": ("duplicate", tar_member("0/a/b") + tar_member("0/a")),
    "a sparse file": ("type", tar_member("0/a", b"S")),
    "a PAX sparse file": ("type", tar_member("p", b"x", pax(**{"GNU.sparse.major": b"1"})) + tar_member()),
    "an unknown kind": ("type", tar_member("0/a", b"Z")),
    "8 EiB": ("size", tar_member(size=b"\x80" + (2**63).to_bytes(11, "big"))),
    "8 TiB and a byte": ("size", tar_member(size=b"\x80" + (2**43 + 1).to_bytes(11, "big"))),
    "8 EiB by PAX": ("size", tar_member("p", b"x", pax(size=b"9223372036854775808")) + tar_member()),
    "a negative size": ("size", tar_member(size=b"\xff" * 12)),
    "no size": ("size", tar_member(size=b"twelve bytes")),
    "a size by PAX that is none": ("pax", tar_member("p", b"x", pax(size=b"-1")) + tar_member()),
    "a size by PAX without end": ("pax", tar_member("p", b"x", pax(size=b"1" * 21)) + tar_member()),
    "a directory with content": ("size", tar_member("0/a", b"5", b"x")),
    "a link with content": ("size", tar_member("0/a", b"2", b"x", target="b")),
    "a hard link with content": ("size", tar_member() + tar_member("0/b", b"1", b"x", target="0/a")),
    "a wrong checksum": ("checksum", tar_member(checksum=b"000000\0 ")),
    "no checksum": ("checksum", tar_member(checksum=b"????????")),
    "no tar": ("checksum", b"<html>".ljust(512)),
    "an unknown form": ("format", tar_member(magic=b"vodka\x0000")),
    "a mode that is none": ("format", tar_member(mode=b"rw-r--r-")),
    "an empty extension": ("format", tar_member("p", b"x") + tar_member()),
    "an extension before nothing": ("format", tar_member("p", b"x", pax(path=b"0/a"))),
    "a PAX header of 2 MiB": ("limit", tar_member("p", b"x", size=b"00010000000\0")),
    "a long name of 8 EiB": ("limit", tar_member("p", b"L", size=b"\x80" + (2**63).to_bytes(11, "big"))),
    "PAX headers without end": ("limit", tar_member("p", b"x", pax(a=b"b")) * 9),
    "a PAX record without a length": ("pax", tar_member("p", b"x", b"path=0/a\n") + tar_member()),
    "a PAX record that is too long": ("pax", tar_member("p", b"x", b"99 path=0/a\n") + tar_member()),
    "a PAX record that is too short": ("pax", tar_member("p", b"x", b"2 path=0/a\n") + tar_member()),
    "a PAX record without a value": ("pax", tar_member("p", b"x", b"7 path\n") + tar_member()),
    "a PAX record of length 0": ("pax", tar_member("p", b"x", b"0 path=0/a\n") + tar_member()),
    "a name for everything": ("pax", tar_member("p", b"g", pax(path=b"0/a"))),
    "up in a prefix": ("path", tar_member("b", prefix=b"0/..")),
    "up in a directory": ("path", tar_member("0/a/../../b/", b"5")),
    "up in a hard link's name": ("path", tar_member("0/a") + tar_member("0/../b", b"1", target="0/a")),
    "up in a link's name": ("path", tar_member("0/../b", b"2", target="a")),
    "up in a fifo's name": ("path", tar_member("0/../b", b"6")),
    "up behind a dot": ("path", tar_member("./0/./../b")),
    "two slashes in front": ("path", tar_member("//0/a")),
    "a dot and two slashes": ("path", tar_member(".//0/a")),
    "two slashes at a directory's end": ("path", tar_member("0/a//", b"5")),
    "a link with a slash": ("path", tar_member("0/a/", b"2", target="b")),
    "a fifo with a slash": ("path", tar_member("0/a/", b"6")),
    "the root as a fifo": ("path", tar_member("0", b"6")),
    "the root as a hard link": ("path", tar_member("0/a") + tar_member("0", b"1", target="0/a")),
    "an empty PAX name": ("path", tar_member("p", b"x", pax(path=b"")) + tar_member()),
    "an absolute PAX name": ("path", tar_member("p", b"x", pax(path=b"/etc/passwd")) + tar_member()),
    "an absolute long name": ("path", long_name(b"/etc/passwd") + tar_member()),
    "the mount of another": ("index", tar_member("1/a")),
    "a negative index": ("index", tar_member("-0/a")),
    "an index with a sign": ("index", tar_member("+0/a")),
    "an index with a blank": ("index", tar_member(" 0/a")),
    "an index in other digits": ("index", tar_member("\u0660/a")),
    "an index without end": ("index", tar_member(b"0" * 100)),
    "an index that is a name": ("index", tar_member("00")),
    "a segment past NAME_MAX": ("io", long_name(b"0/" + b"n" * 256) + tar_member()),
    "a PAX name past PATH_MAX": ("limit", tar_member("p", b"x", pax(path=b"0/" + b"a/" * 2048 + b"a")) + tar_member()),
    "a long name of 5 MB": ("limit", long_name(b"0/" + b"a/" * 2_500_000) + tar_member()),
    "a long name of almost 1 MiB": ("limit", long_name(b"0/" + b"n" * ((1 << 20) - 3)) + tar_member()),
    "a PAX target past PATH_MAX": (
        "limit",
        tar_member("p", b"x", pax(linkpath=b"b/" * 2048)) + tar_member("0/a", b"2"),
    ),
    "a chain of links that leads out": (
        "link",
        tar_member("0/a", b"2", target="b")
        + tar_member("0/b", b"2", target="c")
        + tar_member("0/c", b"2", target="../.."),
    ),
    "a link to the root and out of it": (
        "link",
        tar_member("0/r", b"2", target=".") + tar_member("0/a", b"2", target="r/../b"),
    ),
    "a hard link to a link that leads out": (
        "link",
        tar_member("0/l", b"2", target="/etc/passwd") + tar_member("0/a", b"1", target="0/l"),
    ),
    "a link, then a file below it by a long name": (
        "parent",
        tar_member("0/a", b"2", target=".") + long_name(b"0/a/" + b"n" * 120) + tar_member(),
    ),
    "a hard link below a link": (
        "parent",
        tar_member("0/f") + tar_member("0/a", b"2", target=".") + tar_member("0/a/b", b"1", target="0/f"),
    ),
    "a fifo below a link": ("parent", tar_member("0/a", b"2", target=".") + tar_member("0/a/b", b"6")),
    "a file below a fifo": ("parent", tar_member("0/a", b"6") + tar_member("0/a/b", content=b"x")),
    "a directory below a hard link": (
        "parent",
        tar_member("0/f") + tar_member("0/a", b"1", target="0/f") + tar_member("0/a/b", b"5"),
    ),
    "a hard link to a later file": ("hardlink", tar_member("0/a", b"1", target="0/b") + tar_member("0/b")),
    "a hard link to a parent that is none yet": (
        "hardlink",
        tar_member("0/d/f") + tar_member("0/a", b"1", target="0/d"),
    ),
    "hard links to one another": (
        "hardlink",
        tar_member("0/a", b"1", target="0/b") + tar_member("0/b", b"1", target="0/a"),
    ),
    "a hard link to the mount of another": ("index", tar_member("0/a", b"1", target="1/a")),
    "a hard link with a long target out": (
        "path",
        long_name(b"0/../../etc/passwd", b"K") + tar_member("0/a", b"1"),
    ),
    "a hard link with a PAX target out": (
        "path",
        tar_member("p", b"x", pax(linkpath=b"/etc/passwd")) + tar_member("0/a", b"1", target="0/b"),
    ),
    "a directory again as a file": ("duplicate", tar_member("0/a", b"5") + tar_member("0/a", content=b"x")),
    "a directory again as a hard link": (
        "duplicate",
        tar_member("0/f") + tar_member("0/a", b"5") + tar_member("0/a", b"1", target="0/f"),
    ),
    "a directory again as a fifo": ("duplicate", tar_member("0/a", b"5") + tar_member("0/a", b"6")),
    "a file again as a directory": ("duplicate", tar_member("0/a") + tar_member("0/a", b"5")),
    "a file again as a link": ("duplicate", tar_member("0/a") + tar_member("0/a", b"2", target="/etc")),
    "a file again as a device": ("duplicate", tar_member("0/a") + tar_member("0/a", b"4")),
    "a fifo again as a file": ("duplicate", tar_member("0/a", b"6") + tar_member("0/a", content=b"x")),
    "a fifo again as a link": ("duplicate", tar_member("0/a", b"6") + tar_member("0/a", b"2", target="b")),
    "a parent again as a link": ("duplicate", tar_member("0/a/b") + tar_member("0/a", b"2", target="/etc")),
    "the old form of a sparse file": ("type", tar_member("0/a", b"S", b"x" * 512)),
    "a PAX sparse file of 0.0": ("type", tar_member("p", b"x", pax(**{"GNU.sparse.offset": b"1"})) + tar_member()),
    "a PAX sparse file by its name": (
        "type",
        tar_member("p", b"x", pax(**{"GNU.sparse.name": b"0/b"})) + tar_member(),
    ),
    "the rest of a file of another volume": ("type", tar_member("0/a", b"M", b"x")),
    "a volume's label": ("type", tar_member("0/a", b"V")),
    "a directory of an incremental backup": ("type", tar_member("0/a", b"D", b"Ya\0\0")),
    "a socket as Solaris has it": ("type", tar_member("0/a", b"s")),
    "access rights as Solaris has them": ("type", tar_member("0/a", b"A", b"x")),
    "8 TiB and a byte by PAX": ("size", tar_member("p", b"x", pax(size=b"%d" % (2**43 + 1))) + tar_member()),
    "a negative size in base 256": ("size", tar_member(size=b"\xff" * 4 + (-512 & (2**64 - 1)).to_bytes(8, "big"))),
    "a size with a letter": ("size", tar_member(size=b"0000000000z\0")),
    "a size with a nine": ("size", tar_member(size=b"00000000009\0")),
    "a size with a sign": ("size", tar_member(size=b"-0000000001\0")),
    "a size with a blank inside": ("size", tar_member(size=b"0000 000001\0")),
    "a fifo with content": ("size", tar_member("0/a", b"6", b"x")),
    "a root with content": ("size", tar_member("0/", b"5", b"x")),
    "a size by PAX in sixteens": ("pax", tar_member("p", b"x", pax(size=b"0x10")) + tar_member()),
    "a size by PAX with a sign": ("pax", tar_member("p", b"x", pax(size=b"+1")) + tar_member()),
    "a size by PAX of nothing": ("pax", tar_member("p", b"x", pax(size=b"")) + tar_member()),
    "a size by PAX in other digits": ("pax", tar_member("p", b"x", pax(size="\u0661".encode())) + tar_member()),
    "a target for everything": ("pax", tar_member("p", b"g", pax(linkpath=b"/etc"))),
    "a size for everything": ("pax", tar_member("p", b"g", pax(size=b"1"))),
    "a PAX record of a negative length": ("pax", tar_member("p", b"x", b"-9 path=0/a\n") + tar_member()),
    "a PAX record of a huge length": ("pax", tar_member("p", b"x", b"999999999 path=0/a\n") + tar_member()),
    "a PAX record whose length has no end": ("pax", tar_member("p", b"x", b"9" * 5000) + tar_member()),
    "a PAX header of zeros": ("pax", tar_member("p", b"x", bytes(512)) + tar_member()),
    "less content by PAX than there is": (
        "checksum",
        tar_member("p", b"x", pax(size=b"0")) + tar_member(content=b"not a header"),
    ),
    "less content than there is": ("checksum", tar_member(content=b"x" * 600, size=b"%011o\0" % 1)),
    "a checksum of signed bytes": ("checksum", signed_sum(tar_member("0/\u00e9"))),
    "a checksum with a letter": ("checksum", tar_member(checksum=b"00x000\0 ")),
    "a checksum of nothing": ("checksum", tar_member(checksum=b"        ")),
    "a checksum in base 256": ("checksum", tar_member(checksum=b"\x80\0\0\0\0\0\0\0")),
    "long names without end": ("limit", long_name(b"0/a") * 9 + tar_member()),
    "a mode in base 256 below zero": ("format", tar_member(mode=b"\xff" * 8)),
    "a name that speaks to terminals": ("path", tar_member(b"0/\x1b]0;owned\x07\r\n/../b")),
}

_COMPLETE_MEMBER = tar_member("0/a", content=b"x" * 700)

# Whole streams, whose fault is how they end.
_STREAMS: dict[str, tuple[str, bytes]] = {
    "a lone zero block": ("end", tar_member() + bytes(512) + tar_member("0/b")),
    "more after the end": ("end", END + tar_member()),
    "a little after the end": ("end", END + b"hello"),
    "two archives, one behind the other": ("end", (_COMPLETE_MEMBER + END) * 2),
    "an archive behind a record of zeros": ("end", _COMPLETE_MEMBER + bytes(10_240) + _COMPLETE_MEMBER + END),
    "words behind the end": ("end", _COMPLETE_MEMBER + END + b"tar: Exiting with failure status\n".ljust(512)),
    "nothing at all": ("truncated", b""),
    "one byte": ("truncated", b"0"),
    "half a header": ("truncated", _COMPLETE_MEMBER[:256]),
    "a header without its content": ("truncated", _COMPLETE_MEMBER[:512]),
    "half of the content": ("truncated", _COMPLETE_MEMBER[:800]),
    "no padding": ("truncated", _COMPLETE_MEMBER[: 512 + 700]),
    "no end blocks": ("truncated", _COMPLETE_MEMBER),
    "one end block": ("truncated", _COMPLETE_MEMBER + bytes(512)),
    "one end block and a half": ("truncated", _COMPLETE_MEMBER + bytes(1023)),
    "half of an extension": ("truncated", long_name(b"0/" + b"n" * 2000)[:1000]),
    "an extension and no member": ("truncated", long_name(b"0/a")),
    "more content than there is": ("truncated", tar_member(content=b"x", size=b"%011o\0" % 5000) + END),
    "more content by PAX than there is": (
        "truncated",
        tar_member("p", b"x", pax(size=b"5000")) + tar_member(content=b"x") + END,
    ),
    "a file of 8 TiB, of which little comes": (
        "truncated",
        tar_member(size=b"\x80" + (2**43).to_bytes(11, "big")) + bytes(4096),
    ),
    "a page of a proxy": ("checksum", b"<html><body>502 Bad Gateway</body></html>".ljust(1024)),
    "a shell's words in front": ("checksum", b"sh: warning: setlocale: LC_ALL\n" + _COMPLETE_MEMBER + END),
    "bzip2": ("checksum", b"BZh91AY&SY".ljust(2048, b"\x17")),
    "xz": ("checksum", b"\xfd7zXZ\0".ljust(2048, b"\x17")),
    "lz4": ("checksum", b"\x04\x22\x4d\x18".ljust(2048, b"\x17")),
}

REFUSED = {
    **{name: Hostile(data + END, rule) for name, (rule, data) in _MEMBERS.items()},
    **{name: Hostile(data, rule) for name, (rule, data) in _STREAMS.items()},
}
"""Archives that a rule of `domain.tar.reader` or `ports.trees` refuses."""

_TAKEN: dict[str, tuple[bytes, Tree, dict[str, str]]] = {
    "a character device": (tar_member("0/a", b"3"), Tree(), {"a": "a character device"}),
    "a block device": (tar_member("0/a", b"4"), Tree(), {"a": "a block device"}),
    "a fifo": (tar_member("0/a", b"6"), Tree(), {"a": "a fifo"}),
    "a hard link to a fifo": (
        tar_member("0/a", b"6") + tar_member("0/b", b"1", target="0/a"),
        Tree(),
        {"a": "a fifo", "b": "a fifo"},
    ),
    "a setuid file": (tar_member(mode=b"0004755\0"), Tree((file("a", executable=True),)), {"a": "the setuid bit"}),
    "all bits": (
        tar_member(mode=b"0007777\0"),
        Tree((file("a", executable=True),)),
        {"a": "the setuid and setgid and sticky bits"},
    ),
    "a setgid directory": (tar_member("0/a", b"5", mode=b"0002755\0"), Tree((directory("a"),)), {}),
    "a mode that is larger than any": (
        tar_member(mode=b"\x80\0\0\x1f\xff\xff\xff\xff"),
        Tree((file("a", executable=True),)),
        {"a": "the setuid and setgid and sticky bits"},
    ),
    "a contiguous file": (tar_member("0/a", b"7", b"x"), Tree((file("a", b"x"),)), {}),
    "names that differ in case": (
        tar_member("0/a") + tar_member("0/A", content=b"x"),
        Tree((file("a"), file("A", b"x"))),
        {},
    ),
    "two forms of one letter": (
        tar_member("0/\u00e9") + tar_member("0/e\u0301", content=b"x"),
        Tree((file("\u00e9"), file("e\u0301", b"x"))),
        {},
    ),
    "a name that is no UTF-8": (tar_member(b"0/\xff\xfe"), Tree((file("\udcff\udcfe"),)), {}),
    "an escape that is a surrogate": (tar_member(b"0/\xed\xa0\x80"), Tree((file("\udced\udca0\udc80"),)), {}),
    "a name with lines and escapes": (tar_member(b"0/\x1b[2J\n\r\t"), Tree((file("\x1b[2J\n\r\t"),)), {}),
    "names that are options": (
        tar_member("0/-rf") + tar_member("0/--checkpoint-action=exec=sh"),
        Tree((file("-rf"), file("--checkpoint-action=exec=sh"))),
        {},
    ),
    "three dots and a tilde": (
        tar_member("0/.../a") + tar_member("0/~"),
        Tree((directory("..."), file(".../a"), file("~"))),
        {},
    ),
    "up as Windows has it": (tar_member("0/..\\a"), Tree((file("..\\a"),)), {}),
    "dots in front": (tar_member("./././0/a"), Tree((file("a"),)), {}),
    "a path of PATH_MAX": (
        long_name(b"0/" + (b"n" * 254 + b"/") * 16 + b"b" * 13) + tar_member(),
        Tree(
            (
                *(directory("/".join(["n" * 254] * depth)) for depth in range(1, 17)),
                file("/".join(["n" * 254] * 16 + ["b" * 13])),
            )
        ),
        {},
    ),
    "a segment of NAME_MAX": (long_name(b"0/" + b"n" * 255) + tar_member(), Tree((file("n" * 255),)), {}),
    "a chain of hard links": (
        tar_member("0/a", content=b"x")
        + tar_member("0/b", b"1", target="0/a")
        + tar_member("0/c", b"1", target="0/b")
        + tar_member("0/d", b"1", target="0/c"),
        Tree(tuple(file(name, b"x") for name in "abcd")),
        {},
    ),
    "a hard link that replaces its own copy": (
        tar_member("0/a", content=b"x")
        + tar_member("0/b", content=b"y")
        + tar_member("0/b", b"1", target="0/a")
        + tar_member("0/a", content=b"z"),
        Tree((file("a", b"z"), file("b", b"x"))),
        {},
    ),
    "links in a circle": (
        tar_member("0/a", b"2", target="b") + tar_member("0/b", b"2", target="a"),
        Tree((link("a", "b"), link("b", "a"))),
        {},
    ),
    "a link to nothing": (tar_member("0/a", b"2", target="no/where"), Tree((link("a", "no/where"),)), {}),
    "a file that comes a thousand times": (
        b"".join(tar_member(content=b"%d" % number) for number in range(1000)),
        Tree((file("a", b"999"),)),
        {},
    ),
    "a PAX name for one member alone": (
        tar_member("p", b"x", pax(path=b"0/c")) + tar_member("0/../b") + tar_member("0/d"),
        Tree((file("c"), file("d"))),
        {},
    ),
    "PAX words that nobody knows": (
        tar_member("p", b"x", pax(**{"SCHILY.xattr.security.capability": b"\1\0\0\2", "LIBARCHIVE.x": b"y"}))
        + tar_member(),
        Tree((file("a"),)),
        {},
    ),
    "a prefix of nothing": (tar_member("0/a", prefix=b"\0/etc"), Tree((file("a"),)), {}),
    "nothing but the end": (b"", Tree(), {}),
    "a megabyte behind the end": (_COMPLETE_MEMBER + bytes(1 << 20), Tree((file("a", b"x" * 700),)), {}),
}

TAKEN = {
    name: Hostile(data + END, tree=tree, omitted=tuple(sorted((printable(path), what) for path, what in lost.items())))
    for name, (data, tree, lost) in _TAKEN.items()
}
"""Archives that look suspicious and are valid."""


def zstd_of(data: bytes, **options: int) -> bytes:
    """Returns the data compressed by zstd. The options are those of `CompressionParameter`."""
    parameters = {int(zstd.CompressionParameter[name]): value for name, value in options.items()}
    return zstd.ZstdCompressor(options=parameters).compress(data, zstd.ZstdCompressor.FLUSH_FRAME)


def _gzip_with(data: bytes, *, flags: int = 0, extra: bytes = b"") -> bytes:
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packed.compress(data) + packed.flush()
    end = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + extra + body + end


def _zstd_frame(*, window: int = 20, dictionary: int = 0) -> bytes:
    """Returns a frame (RFC 8878 section 3.1.1) of one raw block that needs 2**window bytes or a dictionary."""
    words = bytes([bool(dictionary), (window - 10) << 3]) + (bytes([dictionary]) if dictionary else b"")
    block = _SENT[:1000]
    return b"\x28\xb5\x2f\xfd" + words + (len(block) << 3 | 1).to_bytes(3, "little") + block


def _changed(data: bytes, at: int) -> bytes:
    damaged = bytearray(data)
    damaged[at] ^= 0x10
    return bytes(damaged)


_SENT = _COMPLETE_MEMBER + END
_TREE = Tree((file("a", b"x" * 700),))
_GZIP, _ZSTD = gzip.compress(_SENT, mtime=0), zstd_of(_SENT, checksum_flag=1)
_SKIPPED = b"\x50\x2a\x4d\x18" + struct.pack("<I", 600) + b"words" * 120
_NOISE = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(200))

PACKED: dict[str, Hostile] = {
    "gzip": Hostile(_GZIP, tree=_TREE),
    "gzip with a file's name": Hostile(_gzip_with(_SENT, flags=0x08, extra=b"../../etc/passwd\0"), tree=_TREE),
    "gzip of nothing": Hostile(gzip.compress(b""), "truncated"),
    "gzip of half an archive": Hostile(gzip.compress(_SENT[:900]), "truncated"),
    "gzip of gzip": Hostile(gzip.compress(gzip.compress(_NOISE)), "checksum"),
    "gzip with words behind it": Hostile(_GZIP + b"gzip: stdout: Broken pipe\n", "end"),
    "gzip with zeros behind it": Hostile(_GZIP + bytes(512), "end"),
    "gzip in two parts": Hostile(gzip.compress(_SENT[:700]) + gzip.compress(_SENT[700:]), "end"),
    "gzip, and zstd behind it": Hostile(gzip.compress(_SENT[:512]) + zstd_of(_SENT[512:]), "end"),
    "gzip of a hostile archive": Hostile(gzip.compress(tar_member("0/../b") + END), "path"),
    "gzip of two archives": Hostile(gzip.compress(_SENT * 2), "end"),
    "gzip that is cut in its header": Hostile(_GZIP[:6], "truncated"),
    "gzip that is cut": Hostile(_GZIP[:-20], "truncated"),
    "gzip without its checksum": Hostile(_GZIP[:-8], "truncated"),
    "gzip without half of its length": Hostile(_GZIP[:-2], "truncated"),
    "gzip with another checksum": Hostile(_changed(_GZIP, -8), "checksum"),
    "gzip with another length": Hostile(_changed(_GZIP, -4), "checksum"),
    "gzip with flags that are reserved": Hostile(_gzip_with(_SENT, flags=0xE0), "checksum"),
    "gzip by a method that nobody knows": Hostile(_GZIP[:2] + b"\x07" + _GZIP[3:], "checksum"),
    "gzip's first bytes alone": Hostile(b"\x1f\x8b" + _NOISE, "checksum"),
    "two bytes of gzip": Hostile(b"\x1f\x8b", "truncated"),
    "zlib without gzip": Hostile(zlib.compress(_NOISE), "checksum"),
    "zstd": Hostile(_ZSTD, tree=_TREE),
    "zstd of nothing": Hostile(zstd_of(b""), "truncated"),
    "zstd of half an archive": Hostile(zstd_of(_SENT[:900]), "truncated"),
    "zstd that is cut": Hostile(_ZSTD[:-20], "truncated"),
    "zstd without its checksum": Hostile(_ZSTD[:-4], "truncated"),
    "zstd with another checksum": Hostile(_changed(_ZSTD, -1), "checksum"),
    "zstd with words behind it": Hostile(_ZSTD + b"zstd: error\n", "end"),
    "zstd in two frames": Hostile(zstd_of(_SENT[:700]) + zstd_of(_SENT[700:]), "end"),
    "zstd behind a frame to skip": Hostile(_SKIPPED + _ZSTD, "checksum"),
    "zstd before a frame to skip": Hostile(_ZSTD + _SKIPPED, "end"),
    "zstd by a dictionary": Hostile(_zstd_frame(dictionary=7), "checksum"),
    "zstd with a window of 2 GiB": Hostile(_zstd_frame(window=31), "checksum"),
    "zstd with a window of 128 MiB": Hostile(_zstd_frame(window=27), "checksum"),
    "zstd's first bytes alone": Hostile(b"\x28\xb5\x2f\xfd" + _NOISE, "checksum"),
    "zstd of a hostile archive": Hostile(zstd_of(tar_member("0/../b") + END), "path"),
}
"""Streams that are compressed, or look so."""

BOMB_BYTES = 40 << 20
"""The decompressed size of a bomb, at least five hundred times its compressed size."""


def bombs() -> dict[str, Hostile]:
    """Returns streams of a few kilobytes that decompress to `BOMB_BYTES`. They are created on each call."""
    zeros = Entry("a", "file", size=BOMB_BYTES, digest=_digest_of_zeros())
    header = tar_member(size=b"%011o\0" % BOMB_BYTES)
    extension = tar_member("p", b"x", size=b"%011o\0" % BOMB_BYTES)
    found: dict[str, Hostile] = {}
    for coding, compressor in (
        ("gzip", lambda: zlib.compressobj(9, zlib.DEFLATED, 31)),
        ("zstd", lambda: zstd.ZstdCompressor(level=1)),
    ):
        found |= {
            f"{coding} of a file of zeros": Hostile(_with_zeros(compressor(), header, END), tree=Tree((zeros,))),
            f"{coding} of zeros behind the end": Hostile(_with_zeros(compressor(), _SENT, b""), tree=_TREE),
            f"{coding} of a large extension": Hostile(_with_zeros(compressor(), extension, END), "limit"),
            f"{coding} of zeros, and then words": Hostile(_with_zeros(compressor(), END, b"x"), "end"),
            f"{coding} of a file that never ends": Hostile(_with_zeros(compressor(), header, b""), "truncated"),
        }
    wide = zstd.ZstdCompressor(options={int(zstd.CompressionParameter.window_log): 27})
    found["zstd of zeros with a wide window"] = Hostile(_with_zeros(wide, header, END), "checksum")
    return found


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _with_zeros(compressor: _Compressor, front: bytes, back: bytes) -> bytes:
    step = bytes(1 << 20)
    pieces = [compressor.compress(front), *(compressor.compress(step) for _ in range(BOMB_BYTES >> 20))]
    return b"".join([*pieces, compressor.compress(back), compressor.flush()])


def _digest_of_zeros() -> str:
    digest = hashlib.sha256()
    for _ in range(BOMB_BYTES >> 20):
        digest.update(bytes(1 << 20))
    return "sha256:" + digest.hexdigest()
