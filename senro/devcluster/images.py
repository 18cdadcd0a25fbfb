"""The images of the embedded cluster: names with behaviours, all of them in one table.

An image has no content here: its containers see the host's tools. What a name stands for is what is different about
it: tools that are missing, the user it runs as, a root that cannot be written to, or a pull that fails in the words of
a real runtime (recordings image-pull-kinds, image-pull-backoff, image-pull-silent, distroless). A name that no entry
fits is the host's tools as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256

_ZEROES = "@sha256:" + "0" * 64
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh", "rbash", "busybox"})


@dataclass(frozen=True, slots=True)
class Image:
    """One entry: the names it fits (patterns of `fnmatch`), and how its containers differ.

    `pull_error` is what the runtime says instead of pulling, with `{image}`, `{host}`, `{path}`, `{digest}` and
    `{scheme}` for the parts of the name; `silent` is a registry that never answers. `start_error` follows "exec:
    <command>: " where the image is there and its program cannot run. `programs` are scripts by name that it has in
    place of the host's programs.
    """

    names: tuple[str, ...]
    absent_tools: frozenset[str] = frozenset()
    user: int | None = None
    read_only_root: bool = False
    pull_error: str = ""
    silent: bool = False
    start_error: str = ""
    on_node: bool = False
    programs: Mapping[str, str] = field(default_factory=dict)


_FAILED = 'failed to pull and unpack image "{image}": failed to resolve image: '
_HEAD = _FAILED + "unexpected status from HEAD request to {scheme}://{host}/v2/{path}/manifests/{digest}: "
_REQUEST = _FAILED + 'failed to do request: Head "https://{host}/v2/{path}/manifests/{digest}": '
_DIGEST = "5e9d0" * 12 + "c1a5"

IMAGE = f"registry.dev/tools@sha256:{_DIGEST}"
"""A pinned name that means "the host's own tools"."""
WITHOUT_SHELL = f"registry.dev/without-shell@sha256:{_DIGEST}"
WITHOUT_TAR = f"registry.dev/without-tar@sha256:{_DIGEST}"
ORDINARY_USER = f"registry.dev/ordinary-user@sha256:{_DIGEST}"
"""Its containers run as uid 1000 where the pod does not say otherwise."""
READ_ONLY_ROOT = f"registry.dev/read-only-root@sha256:{_DIGEST}"

IMAGES = (
    Image(("registry.dev/tools@*",), on_node=True),
    Image(
        ("registry.dev/without-shell@*", "localhost/senro/distroless@*"), absent_tools=_SHELLS | {"tar"}, on_node=True
    ),
    Image(("registry.dev/without-tar@*",), absent_tools=frozenset({"tar", "bsdtar"}), on_node=True),
    Image(("registry.dev/ordinary-user@*",), user=1000, on_node=True),
    Image(("registry.dev/read-only-root@*",), read_only_root=True, on_node=True),
    # What follows cannot be pulled, or not be run. The names on 127.0.0.1 are those of the recordings.
    Image(
        (f"registry.dev/no-such-digest{_ZEROES}", f"127.0.0.1:5055/*{_ZEROES}", "registry.dev/no-such-repository@*"),
        pull_error="rpc error: code = NotFound desc = " + _FAILED + "{image}: not found",
    ),
    Image(
        ("registry.dev/denied@*", "127.0.0.1:5056/*"),
        pull_error=_FAILED
        + "pull access denied, repository does not exist or may require authorization: authorization failed: no basic "
        "auth credentials",
    ),
    Image(("registry.dev/limited@*", "127.0.0.1:5057/limited/*"), pull_error=_HEAD + "429 Too Many Requests"),
    Image(("registry.dev/broken@*", "127.0.0.1:5057/broken/*"), pull_error=_HEAD + "503 Service Unavailable"),
    # RFC 6761: a name under .invalid never resolves; and nobody listens on port 1 (tcpmux).
    Image(("*.invalid/*",), pull_error=_REQUEST + "dial tcp: lookup {host} on 10.96.0.10:53: no such host"),
    Image(("127.0.0.1:1/*",), pull_error=_REQUEST + "dial tcp {host}: connect: connection refused"),
    Image(
        ("registry.dev/no-such-platform@*", "127.0.0.1:5055/senro/arm@sha256:715df745*"),
        pull_error="rpc error: code = NotFound desc = get image config descriptor: no match for platform in manifest "
        "{digest}: not found",
    ),
    Image(("registry.dev/silent@*", "127.0.0.1:5057/slow/*"), silent=True),
    Image(("127.0.0.1:5055/senro/arm@sha256:3588bdb5*",), start_error="permission denied"),
    Image(("registry.dev/foreign-platform@*",), start_error="exec format error"),
)

_ANY = Image(("*",))


def find_image(name: str) -> Image:
    """The entry that fits, or the host's tools as they are."""
    return next((image for image in IMAGES if any(fnmatchcase(name, pattern) for pattern in image.names)), _ANY)


class Images:
    """What one node's containers are made of: the table, images that somebody has added, and which were pulled."""

    def __init__(self) -> None:
        self.pulled: set[str] = set()
        self._added: dict[str, Image] = {}

    def add(self, word: str, *, programs: Mapping[str, str], absent_tools: frozenset[str]) -> str:
        """An image of its own, which is on the node; its pinned name, whose digest is of all that is given here."""
        content = repr((word, sorted(programs.items()), sorted(absent_tools)))
        name = f"registry.dev/{word}@sha256:{sha256(content.encode()).hexdigest()}"
        if why := invalid_name(name):
            raise ValueError(why)
        self._added[name] = Image((name,), absent_tools=absent_tools, on_node=True, programs=dict(programs))
        return name

    def find(self, name: str) -> Image:
        """What the name stands for."""
        return self._added.get(name) or find_image(name)


def pull_error(image: Image, name: str) -> str:
    """The runtime's words for a pull of that name; "" where it succeeds."""
    reference, _, digest = name.partition("@")
    host, _, path = reference.partition("/")
    loopback = host.startswith(("127.", "localhost"))  # such registries are asked without TLS
    parts = {"image": name, "host": host, "path": path, "digest": digest, "scheme": "http" if loopback else "https"}
    return image.pull_error.format_map(parts)


_COMPONENT = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?)"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z][\w.+-]*:[0-9a-fA-F]{{32,}})?"
)


def invalid_name(name: str) -> str:
    """The kubelet's words for what is no image reference (recording invalid-image-name); "" for one that is."""
    if _REFERENCE.fullmatch(name):
        return ""
    why = "invalid reference format"
    # The repository is what lies behind the domain; the recording's own name has the capitals there.
    path = re.split(r"[:@]", name.partition("/")[2] or name, maxsplit=1)[0]
    if path != path.lower():
        why += f": repository name ({path}) must be lowercase"
    return f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}": {why}'
