"""The errors that senro raises.

::

    SenroError
    ├── PlanError             the pipeline is invalid; has every refusal
    ├── ConfigurationError    SENRO_K8S_* or another setting is invalid; has every refusal
    ├── ClusterError          a request to the apiserver failed
    │   ├── ApiError          the apiserver answered with an error
    │   │   ├── NotFound      404, reason NotFound
    │   │   ├── AlreadyExists 409, reason AlreadyExists
    │   │   ├── Conflict      409, any other reason: a precondition (uid, resourceVersion) did not hold
    │   │   ├── Unauthorized  401, after the token was read again
    │   │   ├── Forbidden     403: RBAC, admission, quota
    │   │   ├── Rejected      400, 405, 406, 413, 415, 422 and any other 4xx: repeating it is useless
    │   │   ├── Throttled     429
    │   │   └── Unavailable   5xx, and a 404 of a balancer
    │   ├── Unreachable       no answer: refused, reset, timed out; `sent` says whether it may have taken effect
    │   ├── StreamBroken      an exec or a followed log broke off
    │   └── ProtocolError     the peer violated HTTP, WebSocket or the exec subprotocol
    ├── TreeError             a folder cannot be packed, or an archive must not be unpacked
    ├── StoreError            a content store or a run folder failed
    │   ├── ContentLost       its content is missing or damaged
    │   └── StoreUnavailable  a remote store does not answer, or refuses access
    └── RunBroken             a run that had started could not go on; `cause` is one of the errors above

An error has its values as attributes and makes its sentence of them. No error has the value of a secret, a token or the
headers of a request.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from senro.domain.text.printable import printable


class SenroError(Exception):
    """The base class of the errors that senro raises."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One problem of a plan or a setting.

    `where`: the step, workflow or variable.
    `rule`: a stable identifier for programs.
    `message`: what is wrong, and what to do.
    """

    where: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class _Refusals(SenroError):
    _title = ""

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__(refusals)
        self.refusals = refusals

    def __str__(self) -> str:
        count = len(self.refusals)
        head = f"{self._title}: {count} problem{'' if count == 1 else 's'}"
        return "\n".join([head, *(f"  {refusal}" for refusal in self.refusals)])


class PlanError(_Refusals):
    """The pipeline is invalid. `refusals` has every problem."""

    _title = "the pipeline was refused"


class ConfigurationError(_Refusals):
    """A setting is invalid. `refusals` has every problem."""

    _title = "the configuration was refused"


class ClusterError(SenroError):
    """A request to the cluster failed. `operation` says which one: `create pod ci/build-make-1f`."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of the `details.causes` of a Status: the field, the reason, the message."""

    field: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response of an apiserver.

    `code`: the HTTP status.
    `reason`: the reason of the Status, empty if the body was none.
    `message`: the message, cut to a limit.
    `causes`: the problems of single fields.
    `retry_after`: seconds, from the Retry-After header or details.retryAfterSeconds.
    `name`: the object that the Status is about (details.name), empty if it names none.
    """

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = field(default=())
    retry_after: float | None = None
    name: str = ""


class ApiError(ClusterError):
    """The apiserver answered with an error. `response` is the decoded answer."""

    def __init__(self, operation: str, response: ErrorResponse) -> None:
        super().__init__(operation)
        self.response = response

    def __str__(self) -> str:
        words = self.response.message.strip() or "(no message)"
        reason = f" {self.response.reason}" if self.response.reason else ""
        return f"{self.operation}: the apiserver answered {self.response.code}{reason}: {words}"


class NotFound(ApiError):
    """404 with a Status of reason NotFound: the object `response.name` does not exist. Another 404 is `Unavailable`."""


class AlreadyExists(ApiError):
    """409 on a create: an object has that name, perhaps from a create whose answer was lost."""


class Conflict(ApiError):
    """409 for a precondition: the object is another one, or was changed meanwhile."""


class Unauthorized(ApiError):
    """401, also after the token file was read again."""


class Forbidden(ApiError):
    """403: RBAC, an admission plugin, a quota, a namespace that is being deleted."""


class Rejected(ApiError):
    """Any other 4xx: the request is wrong, and repeating it is useless."""


class Throttled(ApiError):
    """429: repeat the request after `response.retry_after` seconds, one second if it is None."""


class Unavailable(ApiError):
    """5xx, or a 404 without a Status: the control plane, a webhook or a kubelet cannot answer."""


class Unreachable(ClusterError):
    """No answer came. If `sent` is False, the request had no effect."""

    def __init__(self, operation: str, *, cause: str, sent: bool) -> None:
        super().__init__(operation)
        self.cause = cause
        self.sent = sent

    def __str__(self) -> str:
        effect = "it may have taken effect" if self.sent else "nothing was sent"
        return f"{self.operation}: no answer ({self.cause}); {effect}"


class StreamBroken(ClusterError):
    """An exec or a followed log broke off. `sent` and `received` are payload bytes until then."""

    def __init__(self, operation: str, *, cause: str, sent: int = 0, received: int = 0) -> None:
        super().__init__(operation)
        self.cause = cause
        self.sent = sent
        self.received = received

    def __str__(self) -> str:
        moved = f"{self.sent} bytes out and {self.received} bytes in"
        return f"{self.operation}: the stream broke after {moved} ({self.cause})"


class ProtocolError(ClusterError):
    """The peer violated a protocol. `rule` is what was expected, `got` what came instead."""

    def __init__(self, operation: str, *, rule: str, got: str) -> None:
        super().__init__(operation)
        self.rule = rule
        self.got = got

    def __str__(self) -> str:
        return f"{self.operation}: expected {self.rule}, got {self.got}"


class TreeError(SenroError):
    """A folder cannot be packed, or an archive must not be unpacked. `path` is the entry, `rule` an identifier."""

    def __init__(self, path: str, rule: str, message: str) -> None:
        super().__init__(path, rule, message)
        self.path = path
        self.rule = rule
        self.message = message

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}" if self.path else self.message)


class StoreError(SenroError):
    """A store or a run folder failed. `path` is the file, `message` says what is wrong and what to do."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}")


class ContentLost(StoreError):
    """The content is missing or damaged in the store, so no later try finds it."""


class StoreUnavailable(StoreError):
    """A remote store does not answer, or refuses access. `path` is its name."""


class RunBroken(SenroError):
    """A run that had started could not go on. `cause` is the error; the ledger in `folder` says what was cleaned up."""

    def __init__(self, folder: str, cause: SenroError) -> None:
        super().__init__(folder, cause)
        self.folder = folder
        self.cause = cause

    def __str__(self) -> str:
        return f"the run broke: {self.cause}; its ledger is in {self.folder}"
