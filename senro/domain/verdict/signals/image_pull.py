"""Why a pull of an image failed, by the runtime's message.

ErrImagePull and ImagePullBackOff are two phases of the same failure: the back-off repeats the error's message
(docs/design/pod-states.md#row-6-imagepullbackoff). Names of images, URLs and digests are removed from the message
first, since they may contain any word or number.
"""

from __future__ import annotations

import re

from senro.domain.verdict.kinds import PendingKind

_NAMES = re.compile(r'"[^"]*"|https?://\S+|\S+@sha256:\S+')
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(: (ErrImagePull: )?)?')

_WORDS: tuple[tuple[PendingKind, str], ...] = (
    # The first row that matches decides. "r-..." are pods of recording image-pull-kinds; what else is listed is from
    # docs/design/pod-states.md#row-5-errimagepull.
    # r-pull-platform; the second is CRI-O's (containers/image).
    (PendingKind.IMAGE_PLATFORM, r"no match for platform in manifest|no image found in manifest list"),
    # r-pull-limited; the last is the kubelet's own limit.
    (PendingKind.IMAGE_LIMITED, r"429 too many requests|toomanyrequests|pull qps exceeded"),
    # The disk of the node is full.
    (PendingKind.RUNTIME, r"no space left on device"),
    # r-pull-broken, r-pull-host, r-pull-refused, recording image-pull-backoff. Before the row of authorization: a token
    # that could not be fetched in time is no refusal.
    (
        PendingKind.IMAGE_UNREACHABLE,
        (
            r"\b5\d\d [a-z]|no such host|connection refused|connection reset|no route to host|"
            r"network is unreachable|i/o timeout|tls handshake|x509|deadline exceeded|server misbehaving|\beof\b"
        ),
    ),
    # r-pull-denied. Before "not exist": a registry hides what a client may not see.
    (
        PendingKind.IMAGE_DENIED,
        (
            r"access denied|authorization failed|failed to authorize|no basic auth credentials|"
            r"authentication required|unauthorized|\b40[13] |\bdenied\b"
        ),
    ),
    # CRI-O and older kubelets; newer kubelets report InvalidImageName.
    (PendingKind.IMAGE_INVALID, r"invalid reference format"),
    # r-pull-digest, r-pull-repository.
    (PendingKind.IMAGE_NOT_FOUND, r"not found|manifest unknown|name unknown|does not exist"),
)


def pull_words(message: str) -> str:
    """The error in the message of a back-off, empty if the kubelet does not report it (1.30 and older may not)."""
    return _BACK_OFF.sub("", message)


def pull_kind(message: str) -> PendingKind:
    """The kind of an ErrImagePull or ImagePullBackOff; `IMAGE_UNREACHABLE` if the message is unknown."""
    words = _NAMES.sub(" ", pull_words(message)).lower()
    return next((kind for kind, pattern in _WORDS if re.search(pattern, words)), PendingKind.IMAGE_UNREACHABLE)
