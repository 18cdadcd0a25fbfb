from __future__ import annotations

import re

import pytest

from senro.domain.kube.image_reference import ImageReference, parse_image
from tests.lib.builders.plans import DIGEST

PINNED = f"@{DIGEST}"


@pytest.mark.parametrize(
    ("name", "host", "path", "tag"),
    [
        ("ghcr.io/acme/runner", "ghcr.io", "acme/runner", ""),
        ("ghcr.io/acme/runner:v1.2_3-x", "ghcr.io", "acme/runner", "v1.2_3-x"),
        ("registry.example:5000/a", "registry.example:5000", "a", ""),
        ("localhost/senro/runner", "localhost", "senro/runner", ""),
        ("[2001:db8::1]:5000/a/b:t", "[2001:db8::1]:5000", "a/b", "t"),
        ("10.0.0.1:80/a", "10.0.0.1:80", "a", ""),
        ("Registry/a", "Registry", "a", ""),
        ("busybox", "", "busybox", ""),
        ("busybox:1", "", "busybox", "1"),
        ("library/busy_box", "", "library/busy_box", ""),
        ("a__b/c--d/e.f/g---h", "", "a__b/c--d/e.f/g---h", ""),
        ("a:" + "t" * 128, "", "a", "t" * 128),
        ("h.io/" + "a" * 250, "h.io", "a" * 250, ""),
    ],
)
def test_a_reference_with_a_digest(name: str, host: str, path: str, tag: str) -> None:
    """Host, path, tag and digest are parsed as every runtime does, and make the same reference."""
    reference = parse_image(name + PINNED)
    assert reference == ImageReference(host, path, tag, DIGEST)
    assert str(reference) == name + PINNED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no digest"),
        ("busybox", "has no digest"),
        ("busybox:latest", "has no digest"),
        ("busybox@", "not of sha256"),
        ("busybox@sha512:" + "a" * 128, "not of sha256"),
        ("busybox@" + "a" * 64, "not of sha256"),
        ("busybox@sha256:" + "a" * 63, "these are 63 characters"),
        ("busybox@sha256:" + "a" * 65, "these are 65 characters"),
        ("busybox@sha256:" + "A" * 64, "in upper case"),
        ("busybox@sha256:" + "g" * 64, "not hexadecimal"),
        ("busybox@sha256:" + "\u0663" * 64, "not hexadecimal"),
        (f"busybox{PINNED}\n", "these are 65 characters"),
        (f"busybox{PINNED}{PINNED}", "these are 136 characters"),
        (PINNED, "`` in its path"),
        (f"https://ghcr.io/a{PINNED}", "`https:` is not a host"),
        (f"-ghcr.io/a{PINNED}", "`-ghcr.io` is not a host"),
        (f"ghcr.io:x/a{PINNED}", "`ghcr.io:x` is not a host"),
        (f"ghcr..io/a{PINNED}", "`ghcr..io` is not a host"),
        (f"[::1/a{PINNED}", "is not a host"),
        (f"ghcr.io/Acme/a{PINNED}", "`Acme` in its path"),
        (f"Acme{PINNED}", "`Acme` in its path"),
        (f"ghcr.io//a{PINNED}", "`` in its path"),
        (f"ghcr.io/a/{PINNED}", "`` in its path"),
        (f"a___b{PINNED}", "`a___b` in its path"),
        (f"a_.b{PINNED}", "`a_.b` in its path"),
        (f"-a{PINNED}", "`-a` in its path"),
        (f"a b{PINNED}", "`a b` in its path"),
        (f"a:{PINNED}", "its tag"),
        (f"a:-t{PINNED}", "its tag"),
        (f"a:{'t' * 129}{PINNED}", "its tag"),
        (f"a:b:c{PINNED}", "its tag"),
        (f"h.io/{'a' * 251}{PINNED}", "longer than 255"),
    ],
)
def test_a_reference_that_is_refused(text: str, says: str) -> None:
    """A reference that a runtime refuses, or without a digest, is refused with its problem."""
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_image(text)
