"""Every kind of request that senro sends: whether the adapter may repeat it, and after which answers.

The caller repeats the others (docs/design/attempt.md#repeated-requests), after it has found out what an unanswered one
did.
"""

from __future__ import annotations

import re
from enum import Enum, unique

from senro.domain.errors import ApiError, ClusterError, Unreachable


@unique
class RequestKind(Enum):
    """A kind of request. The value is its method, whether it is safe to repeat, and why."""

    VERSION = ("GET", True, "it only reads the version")
    POD_READ = ("GET", True, "it only reads a pod")
    POD_CREATE = ("POST", False, "an unanswered one may have created the pod, which the caller then finds by its nonce")
    POD_DELETE = ("DELETE", True, "the precondition limits it to the pod with the uid; a missing pod counts as deleted")
    SECRET_CREATE = ("POST", False, "an unanswered one may have created the Secret, which the identity cannot read")
    SECRET_OWN = (
        "PATCH",
        False,
        "its result is always the same, but the caller has another bound, and reports the wait",
    )
    SECRET_DELETE = ("DELETE", True, "the name has a hash of the nonce; a missing Secret counts as deleted")
    EVENTS_LIST = ("GET", True, "it only reads Events")
    LEASE_READ = ("GET", True, "it only reads a Lease")
    LEASE_CREATE = ("POST", False, "after an unanswered one the caller reads who holds the Lease")
    LEASE_REPLACE = (
        "PUT",
        False,
        "it is valid for one resourceVersion; after an unanswered one the caller reads the Lease",
    )
    LEASE_DELETE = ("DELETE", False, "after an unanswered one a 409 may be about the Lease of the next holder")
    LOG = ("GET", False, "the caller follows it again from the last line that it got")
    EXEC = ("GET", False, "its command may have run; the caller looks at the pod and repeats the whole transfer")

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.value[0]

    @property
    def is_idempotent(self) -> bool:
        """Whether the adapter may repeat it."""
        return self.value[1]


TRANSIENT_CODES = frozenset({429, 502, 503, 504})
"""HTTP codes of failures that may pass: of flow control, a load balancer, or an apiserver that starts or stops."""

WEBHOOK_FAILED = re.compile(r"failed calling webhook")
"""The message of a 500 for an admission webhook that cannot be reached. Nothing was stored."""

ETCD_FAILED = re.compile(
    r"etcdserver: (?:request timed out|leader changed|too many requests)|no leader|context deadline"
)
"""The messages of etcd while it has no leader or is slow. A write may have been stored."""

THROTTLED_SECONDS = 1.0
"""The delay after a 429 without Retry-After (`senro.domain.errors.Throttled`), and after a webhook that failed."""


def retry_delay(error: ClusterError) -> float | None:
    """Returns the least seconds before a safe request is repeated after `error`; None if repeating is useless.

    A 500 is repeated only with a Retry-After (reason ServerTimeout) or a known message. Other 500s are bugs, and the
    same the next time.
    """
    if isinstance(error, Unreachable):
        return 0.0
    if not isinstance(error, ApiError):
        return None
    response = error.response
    webhook = response.code == 500 and WEBHOOK_FAILED.search(response.message) is not None
    transient = webhook or (response.code == 500 and ETCD_FAILED.search(response.message) is not None)
    if (
        not transient
        and response.code not in TRANSIENT_CODES
        and not (response.code >= 500 and response.retry_after is not None)
    ):
        return None
    least = THROTTLED_SECONDS if response.code == 429 or webhook else 0.0
    return least if response.retry_after is None else max(0.0, response.retry_after)


def requested_delay(error: ClusterError | None) -> float:
    """Returns the seconds that the apiserver wants between `error` and the next request; 0 for none."""
    return 0.0 if error is None else retry_delay(error) or 0.0
