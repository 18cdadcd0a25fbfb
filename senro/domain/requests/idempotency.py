"""Every request that senro sends: whether it may be sent again unasked, and after which answers.

One table. What is safe to repeat is repeated by whoever sends it, inside a budget. What is not goes back to the caller,
who looks first what became of it (docs/design/attempt.md#lost-answers) and decides by a table of its own
(`senro.domain.verdict.creation`).
"""

from __future__ import annotations

import re
from enum import Enum, unique

from senro.domain.errors import ApiError, ClusterError, Unreachable


@unique
class RequestKind(Enum):
    """A kind of request: its method, whether repeating it is safe, and why. The value is all three."""

    VERSION = ("GET", True, "it reads the version, and changes nothing")
    POD_READ = ("GET", True, "it reads a pod, and changes nothing")
    POD_CREATE = ("POST", False, "a lost answer may have created it: the 409 is read back, and ours has our nonce")
    POD_DELETE = ("DELETE", True, "the uid's precondition keeps it to this very pod; one that is gone is deleted")
    SECRET_CREATE = ("POST", False, "it cannot be read back: a 409 is ours only after an answer that was lost")
    SECRET_OWN = (
        "PATCH",
        False,
        "it says the same each time; the attempt repeats it, beside the step and with patience",
    )
    SECRET_DELETE = ("DELETE", True, "its name holds a hash of the nonce; one that is gone is deleted")
    EVENTS_LIST = ("GET", True, "it reads Events, and changes nothing")
    LEASE_READ = ("GET", True, "it reads a Lease, and changes nothing")
    LEASE_CREATE = ("POST", False, "after a lost answer the Lease is read: it says who holds it")
    LEASE_REPLACE = ("PUT", False, "it fits one resourceVersion: after a lost answer the Lease is read")
    LEASE_DELETE = ("DELETE", False, "it fits one state: after a lost answer a 409 may be of the lease that came next")
    LOG = ("GET", False, "it is resumed at the last line that came, by whoever follows it")
    EXEC = ("GET", False, "its command may have run: a transfer is repeated whole, once the pod was looked at")

    @property
    def method(self) -> str:
        """The method of HTTP."""
        return self.value[0]

    @property
    def is_idempotent(self) -> bool:
        """Whether it is safe to send it again unasked."""
        return self.value[1]


TRANSIENT_CODES = frozenset({429, 502, 503, 504})
"""Answers that may be another one soon: of flow control, a balancer, an apiserver that starts or stops."""

WEBHOOK_FAILED = re.compile(r"failed calling webhook")
"""An admission webhook that times out or cannot be reached, which comes before anything is stored."""

ETCD_FAILED = re.compile(
    r"etcdserver: (?:request timed out|leader changed|too many requests)|no leader|context deadline"
)
"""etcd's own words for a moment without it; a write may have been stored."""

THROTTLED_SECONDS = 1.0
"""What a 429 asks for that does not say (`senro.domain.errors.Throttled`), and a webhook that did not answer."""


def retry_delay(error: ClusterError) -> float | None:
    """Seconds that a request which is safe to repeat waits at least after `error`; None where repeating is useless.

    A 500 is repeated where it says when (reason ServerTimeout) or why: others are bugs, and the same the next time.
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
    """Seconds that the apiserver requests before the next request, whatever that is; 0 if it requests none."""
    return 0.0 if error is None else retry_delay(error) or 0.0
