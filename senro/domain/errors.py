"""Every error that senro raises on purpose.

::

    SenroError
    ├── PlanError             the pipeline file asks for what cannot be; carries every refusal
    ├── ConfigurationError    SENRO_K8S_* or another setting cannot work; carries every problem
    ├── ClusterError          a request to the apiserver did not do what was asked
    │   ├── ApiError          the apiserver answered, and the answer is no
    │   │   ├── NotFound      404, reason NotFound
    │   │   ├── AlreadyExists 409, reason AlreadyExists
    │   │   ├── Conflict      409, any other reason: a precondition (uid, resourceVersion) did not hold
    │   │   ├── Unauthorized  401, after the token was read again
    │   │   ├── Forbidden     403: RBAC, admission, quota
    │   │   ├── Rejected      400, 405, 406, 413, 415, 422 and any other 4xx: repeating it is useless
    │   │   ├── Throttled     429
    │   │   └── Unavailable   5xx, and a 404 of a balancer
    │   ├── Unreachable       no answer: refused, reset, timed out; `sent` says whether it may have taken effect
    │   ├── StreamBroken      an exec or a followed log ended in the middle
    │   └── ProtocolError     the peer broke the rules of HTTP, WebSocket or the exec subprotocol
    ├── TreeError             a folder cannot be packed, or an archive must not be unpacked
    ├── StoreError            a content store or a run folder cannot be written or does not hold what it should
    │   ├── ContentLost       what it was asked for is not there, or is damaged
    │   └── StoreUnavailable  a store on another machine does not answer, or does not let us
    └── RunBroken             a run that had started could not go on; `cause` is one of the errors above

An error keeps its values as attributes and builds its sentence from them; tests/unit/domain/test_errors.py holds every
sentence. No error carries a secret's value, a token or a request's headers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from senro.domain.text.printable import printable


class SenroError(Exception):
    """The root: catch this to catch everything that senro raises on purpose."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that a plan or a setting asks for and cannot have.

    `where` names the step, workflow or variable; `rule` is a short stable word for programs; `message` says what
    is wrong and what to do.
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
    """The pipeline cannot be built. `refusals` holds every reason at once; nothing was created."""

    _title = "the pipeline was refused"


class ConfigurationError(_Refusals):
    """A setting from the environment cannot work. `refusals` holds every problem at once; nothing was started."""

    _title = "the configuration was refused"


class ClusterError(SenroError):
    """A request to the cluster did not do what was asked. `operation` says what: `create pod ci/build-make-1f`."""

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of a Status' `details.causes`: the field, the machine's reason, the words."""

    field: str = ""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An apiserver's refusal: a decoded Status, or what there was of one.

    `code` is the HTTP status. `reason` is the Status' own, empty where the body was no Status. `message` is the
    cluster's text, bounded. `retry_after` is in seconds, from details.retryAfterSeconds or the Retry-After header.
    `name` is the object that the Status is about (details.name), empty where it names none.
    """

    code: int
    reason: str = ""
    message: str = ""
    causes: tuple[StatusCause, ...] = field(default=())
    retry_after: float | None = None
    name: str = ""


class ApiError(ClusterError):
    """The apiserver answered, and the answer is no. `response` holds its words."""

    def __init__(self, operation: str, response: ErrorResponse) -> None:
        super().__init__(operation)
        self.response = response

    def __str__(self) -> str:
        words = self.response.message.strip() or "(no message)"
        reason = f" {self.response.reason}" if self.response.reason else ""
        return f"{self.operation}: the apiserver answered {self.response.code}{reason}: {words}"


class NotFound(ApiError):
    """404 with a Status of reason NotFound: the object that `response.name` names is gone, or never was.

    Any other 404 is `Unavailable`: a balancer's page, or an apiserver that is starting.
    """


class AlreadyExists(ApiError):
    """409 on a create: something has that name. It may be ours, from a create whose answer was lost."""


class Conflict(ApiError):
    """409 for a precondition: the object under that name is another one, or changed meanwhile."""


class Unauthorized(ApiError):
    """401, also after the token file was read again."""


class Forbidden(ApiError):
    """403: RBAC, an admission plugin, a quota, a namespace that is being deleted."""


class Rejected(ApiError):
    """A 4xx that no repetition mends: the request itself is wrong."""


class Throttled(ApiError):
    """429: ask again after `response.retry_after` seconds, one second where it is None."""


class Unavailable(ApiError):
    """5xx, or a 404 without a Status: the control plane, a webhook or a kubelet behind it could not answer."""


class Unreachable(ClusterError):
    """No answer came. `sent` is False where nothing can have taken effect: repeat freely; else look first."""

    def __init__(self, operation: str, *, cause: str, sent: bool) -> None:
        super().__init__(operation)
        self.cause = cause
        self.sent = sent

    def __str__(self) -> str:
        effect = "it may have taken effect" if self.sent else "nothing was sent"
        return f"{self.operation}: no answer ({self.cause}); {effect}"


class StreamBroken(ClusterError):
    """An exec or a followed log ended in the middle. `sent` and `received` count payload bytes until then."""

    def __init__(self, operation: str, *, cause: str, sent: int = 0, received: int = 0) -> None:
        super().__init__(operation)
        self.cause = cause
        self.sent = sent
        self.received = received

    def __str__(self) -> str:
        moved = f"{self.sent} bytes out and {self.received} bytes in"
        return f"{self.operation}: the stream broke after {moved} ({self.cause})"


class ProtocolError(ClusterError):
    """The peer broke the rules. `rule` says which one, `got` what came instead."""

    def __init__(self, operation: str, *, rule: str, got: str) -> None:
        super().__init__(operation)
        self.rule = rule
        self.got = got

    def __str__(self) -> str:
        return f"{self.operation}: expected {self.rule}, got {self.got}"


class TreeError(SenroError):
    """A folder cannot be packed, or an archive must not be unpacked. `path` is the member, `rule` a stable word."""

    def __init__(self, path: str, rule: str, message: str) -> None:
        super().__init__(path, rule, message)
        self.path = path
        self.rule = rule
        self.message = message

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}" if self.path else self.message)


class StoreError(SenroError):
    """A store or a run folder failed. `path` names the file, `message` says what was found and what to do."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}")


class ContentLost(StoreError):
    """What a store was asked for is not held there, or is damaged: no later try finds it."""


class StoreUnavailable(StoreError):
    """A store on another machine cannot be used: it does not answer, or no longer lets us. `path` is its name."""


class RunBroken(SenroError):
    """A run that had started could not go on. What it had created was put away as far as `folder`'s ledger says.

    `cause` is the error that ended it, `folder` the run's folder.
    """

    def __init__(self, folder: str, cause: SenroError) -> None:
        super().__init__(folder, cause)
        self.folder = folder
        self.cause = cause

    def __str__(self) -> str:
        return f"the run broke: {self.cause}; what it did until then is told in {self.folder}"
