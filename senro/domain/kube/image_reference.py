"""Image references with a digest, by the grammar of the distribution project.

::

    reference := [host [":" port] "/"] component {"/" component} [":" tag] "@sha256:" 64 * lower-case hex

The apiserver accepts any text as an image; only the kubelet refuses it (`InvalidImageName`). The runtime ignores a tag
next to a digest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NAME_CHARACTERS: Final = 255
"""The longest host and path that every runtime accepts (distribution/reference, NameTotalLengthMax)."""

_DOMAIN: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST: Final = re.compile(rf"(?:{_DOMAIN}(?:\.{_DOMAIN})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ImageReference:
    """An image.

    `host`: the registry with its port, empty for the runtime's default.
    `path`: the repository.
    `tag`: the tag, empty if there is none.
    `digest`: `sha256:<hex>`.
    """

    host: str
    path: str
    tag: str
    digest: str

    def __str__(self) -> str:
        host = f"{self.host}/" if self.host else ""
        tag = f":{self.tag}" if self.tag else ""
        return f"{host}{self.path}{tag}@{self.digest}"


def parse_image(text: str) -> ImageReference:
    """Parses a reference with a digest. Raises `ValueError`, which says what is wrong and what to write."""
    name, at, digest = text.partition("@")
    if not at:
        raise ValueError("it has no digest, so the image behind the name may change; add `@sha256:<64 hex digits>`")
    if not digest.startswith("sha256:"):
        raise ValueError("its digest is not of sha256; write `@sha256:<64 hex digits>`")
    if _DIGEST.fullmatch(digest) is None:
        raise ValueError(f"a sha256 digest is 64 lower-case hex digits; these are {_described(digest[7:])}")
    host, path, tag = _split(name)
    if host and _HOST.fullmatch(host) is None:
        raise ValueError(f"its registry `{host}` is not a host with an optional port; write one such as `ghcr.io`")
    for component in path.split("/"):
        if _COMPONENT.fullmatch(component) is None:
            raise ValueError(
                f"`{component}` in its path is not lower-case letters and digits, joined by `.`, `_` or `-`; correct it"
            )
    if tag is not None and _TAG.fullmatch(tag) is None:
        raise ValueError(
            "its tag is not up to 128 letters, digits, `_`, `.` and `-`; leave it out, the digest says all"
        )
    if len(host) + 1 + len(path) > NAME_CHARACTERS:
        raise ValueError(f"its name is longer than {NAME_CHARACTERS} characters; shorten it")
    return ImageReference(host, path, tag or "", digest)


def _split(name: str) -> tuple[str, str, str | None]:
    """Host, path and tag. The first component is a host if it cannot be a path, as for every runtime."""
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and (any(sign in first for sign in ".:[") or first == "localhost" or first.lower() != first)
    host, remaining = (first, rest) if is_host else ("", name)
    path, colon, tag = remaining.partition(":")
    return host, path, tag if colon else None


def _described(digits: str) -> str:
    if len(digits) != 64:
        return f"{len(digits)} characters"
    return "in upper case" if digits.lower() != digits else "not hexadecimal"
