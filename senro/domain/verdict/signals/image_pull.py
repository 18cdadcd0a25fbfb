"""Why an image could not be had, read from the runtime's words.

`waiting.reason` is mostly ErrImagePull or ImagePullBackOff, which are one thing seen at two moments: the back-off
repeats the error's words behind its own (docs/design/pod-states.md#row-5-errimagepull and
docs/design/pod-states.md#row-6-imagepullbackoff). The words are the runtime's, quoted and wrapped; image names, URLs
and digests in them are set aside first, since they may hold any word or number.
"""

from __future__ import annotations

import re

from senro.domain.verdict.kinds import PendingKind

_NAMES = re.compile(r'"[^"]*"|https?://\S+|\S+@sha256:\S+')
_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*"(: (ErrImagePull: )?)?')

_WORDS: tuple[tuple[PendingKind, str], ...] = (
    # The first row that matches decides. Recording image-pull-kinds unless another source is named.
    # r-pull-platform; CRI-O says the second (containers/image).
    (PendingKind.IMAGE_PLATFORM, r"no match for platform in manifest|no image found in manifest list"),
    # r-pull-limited; the kubelet's own limit: docs/design/pod-states.md#row-5-errimagepull.
    (PendingKind.IMAGE_LIMITED, r"429 too many requests|toomanyrequests|pull qps exceeded"),
    # A full disk of the node is no matter of the registry (docs/design/pod-states.md#row-5-errimagepull).
    (PendingKind.RUNTIME, r"no space left on device"),
    # r-pull-broken, r-pull-host, r-pull-refused, image-pull-backoff; the rest
    # docs/design/pod-states.md#row-5-errimagepull. Before the words of authorization: a token that could not be fetched
    # in time is no refusal.
    (
        PendingKind.IMAGE_UNREACHABLE,
        (
            r"\b5\d\d [a-z]|no such host|connection refused|connection reset|no route to host|"
            r"network is unreachable|i/o timeout|tls handshake|x509|deadline exceeded|server misbehaving|\beof\b"
        ),
    ),
    # r-pull-denied; 401 and 403 docs/design/pod-states.md#row-5-errimagepull. Before "not exist": a registry hides what
    # one may not see.
    (
        PendingKind.IMAGE_DENIED,
        (
            r"access denied|authorization failed|failed to authorize|no basic auth credentials|"
            r"authentication required|unauthorized|\b40[13] |\bdenied\b"
        ),
    ),
    # CRI-O and older kubelets say it here, kubelets of today as InvalidImageName.
    (PendingKind.IMAGE_INVALID, r"invalid reference format"),
    # r-pull-digest, r-pull-repository; manifest and name unknown docs/design/pod-states.md#row-5-errimagepull.
    (PendingKind.IMAGE_NOT_FOUND, r"not found|manifest unknown|name unknown|does not exist"),
)


def pull_words(message: str) -> str:
    """The error behind a back-off, empty where the kubelet kept it to itself (1.30 and older may)."""
    return _BACK_OFF.sub("", message)


def pull_kind(message: str) -> PendingKind:
    """What an ErrImagePull or ImagePullBackOff comes to; a registry that cannot be reached where no word is known."""
    words = _NAMES.sub(" ", pull_words(message)).lower()
    return next((kind for kind, pattern in _WORDS if re.search(pattern, words)), PendingKind.IMAGE_UNREACHABLE)
