"""What to do when the apiserver does not answer a create of a pod or a Secret with 201.

The caller tries the create again or gives up. senro never repeats a create blindly: where `may_exist` is set, the
earlier request may have stored the object, so the caller reads a 409 back before it concludes anything from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from senro.domain.errors import (
    ApiError,
    ClusterError,
    Conflict,
    Forbidden,
    Rejected,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from senro.domain.requests.idempotency import ETCD_FAILED, THROTTLED_SECONDS, TRANSIENT_CODES, WEBHOOK_FAILED
from senro.domain.verdict.answers import Infra
from senro.domain.verdict.kind_table import INFRA_KINDS
from senro.domain.verdict.kinds import DidRun, InfraKind

RetryBudget = Literal["trouble", "quota"]
"""What bounds the repetitions: `TROUBLE_SECONDS` for a failing control plane, the step's start timeout for a quota."""

TROUBLE_SECONDS = 60.0
"""How long senro repeats a create while the control plane fails."""

QUOTA_PAUSE = 5.0
"""Seconds between the first two creates while a quota is used up; each pause doubles, up to 30 s."""


@dataclass(frozen=True, slots=True)
class RetryCreate:
    """Try the create again.

    `delay`: the least number of seconds to wait first.
    `may_exist`: the request that failed may have stored the object.
    `budget`: what bounds the repetitions.
    `kind`: what failed the step if no repetition succeeds.
    `message`: what to show meanwhile, empty for nothing.
    """

    delay: float
    may_exist: bool
    budget: RetryBudget = "trouble"
    kind: InfraKind = InfraKind.APISERVER
    message: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Trying again changes nothing.

    `kind`: what failed the step.
    `hint`: the option that satisfies the refusal, empty if there is none.
    """

    kind: InfraKind
    hint: str = ""


Decision = RetryCreate | GiveUp

_VERB_REFUSED = re.compile(r"\bcannot (?:create|patch|get|list|update|delete)\b|is forbidden:\s*$|^\s*$")
"""RBAC's words for a verb that the identity has not been granted; of exec's second check nothing at all (recording
exec-forbidden)."""

_WEBHOOK_OUTAGE = re.compile(
    r"denied the request.*(?:context deadline exceeded|connection refused|connection reset|no such host|i/o timeout"
    r"|TLS handshake timeout|\bEOF\b)",
    re.DOTALL,
)
"""A webhook that could not reach what it asks, and denies the request for that reason, with any code."""

_WAIT_FOR_WEBHOOK = RetryCreate(
    THROTTLED_SECONDS, may_exist=False, kind=InfraKind.ADMISSION_TRANSIENT, message="waiting for an admission webhook"
)
_WAIT_FOR_QUOTA = RetryCreate(
    QUOTA_PAUSE, may_exist=False, budget="quota", kind=InfraKind.QUOTA, message="waiting for quota"
)

_Texts = tuple[tuple[str | re.Pattern[str], Decision], ...]
"""The causes that share an HTTP status: what the apiserver's message contains, and what to do about it."""

# fmt: off
_CONFLICTS: _Texts = (
    # The optimistic lock of the quota; the apiserver did not create the pod.
    ("resourcequotas", RetryCreate(1.0, may_exist=False)),
)

_DENIALS: _Texts = (
    (_WEBHOOK_OUTAGE, _WAIT_FOR_WEBHOOK),
    ("denied the request", GiveUp(InfraKind.ADMISSION, "The webhook's words say what to change, or ask its owner.")),
)

_FORBIDDEN: _Texts = (
    *_DENIALS,
    # The quota plugin (recording refused-namespaces): about a container of senro's, then about the step's own.
    ("exceeded quota", _WAIT_FOR_QUOTA),
    (r"must specify (?:limits|requests)\.\S+ for: [^;]*senro-", GiveUp(
        InfraKind.QUOTA, "Give the pod transfer_resources= as well: the namespace's quota counts every container.")),
    (r"failed quota|must specify (?:limits|requests)\.",
        GiveUp(InfraKind.QUOTA, "Give the pod resources=: the namespace's quota wants them.")),
    # The PodSecurity plugin (recording refused-namespaces): for `restricted`, then for another level.
    ('violates PodSecurity "restricted',
        GiveUp(InfraKind.POD_SECURITY, 'Set security="restricted" and user= (not 0) on k8s.Pod.')),
    ("violates PodSecurity", GiveUp(InfraKind.POD_SECURITY)),
    # Recordings refused and refused-by-admission.
    ("error looking up service account",
        GiveUp(InfraKind.CONFIG, "Create the ServiceAccount, or correct service_account= on k8s.Pod.")),
    ("RuntimeClass .* not found",
        GiveUp(InfraKind.CONFIG, "Create the RuntimeClass, or correct runtime_class= on k8s.Pod.")),
    ("no PriorityClass with name",
        GiveUp(InfraKind.CONFIG, "Create the PriorityClass, or correct priority_class= on k8s.Pod.")),
    # Recording refused-by-admission, and the LimitRanger's other sentences.
    ("(?:maximum|minimum) .* (?:usage|limit|request|per (?:Container|Pod))|limit to request ratio",
        GiveUp(InfraKind.LIMIT_RANGE)),
    # Recording refused-namespaces.
    ("is being terminated", GiveUp(
        InfraKind.ADMISSION, "The namespace is being deleted: use another, or wait until it is made anew.")),
    (_VERB_REFUSED, GiveUp(InfraKind.FORBIDDEN)),  # recording connection
)

_SERVER_ERRORS: _Texts = (
    *_DENIALS,
    (WEBHOOK_FAILED, _WAIT_FOR_WEBHOOK),  # the apiserver calls admission webhooks before it stores anything
    (ETCD_FAILED, RetryCreate(0.0, may_exist=True)),
    ("etcdserver: request is too large", GiveUp(
        InfraKind.ADMISSION, "The object is larger than etcd takes: shorten command, env or the secrets.")),
)
# fmt: on


def classify_create_error(error: ClusterError) -> Decision:
    """What to do after a create failed with `error`. An unknown 4xx is final; so is an unknown 500."""
    match error:
        case Unreachable(sent=sent):
            return RetryCreate(0.0, may_exist=sent)
        case Throttled(response=response):
            delay = THROTTLED_SECONDS if response.retry_after is None else response.retry_after
            return RetryCreate(delay, may_exist=False)
        case Unauthorized():
            return GiveUp(InfraKind.UNAUTHORIZED)
        case Conflict(response=response):
            return _by_text(_CONFLICTS, response.message, GiveUp(InfraKind.ADMISSION))
        case Forbidden(response=response):
            return _by_text(_FORBIDDEN, response.message, GiveUp(InfraKind.ADMISSION))
        case Rejected(response=response):
            return _by_text(
                _DENIALS, response.message, GiveUp(InfraKind.ADMISSION, "Correct the field that the message names.")
            )
        case Unavailable(response=response):
            transient = response.code in {404, *TRANSIENT_CODES} or response.retry_after is not None
            default = RetryCreate(0.0, may_exist=True) if transient else GiveUp(InfraKind.APISERVER)
            decision = _by_text(_SERVER_ERRORS, response.message, default)
            if isinstance(decision, GiveUp):
                return decision
            return replace(decision, delay=max(decision.delay, response.retry_after or 0.0))
        case ApiError():
            return GiveUp(InfraKind.ADMISSION)
        case _:
            return GiveUp(InfraKind.APISERVER)


def may_have_been_stored(error: ClusterError) -> bool:
    """Whether the apiserver may have stored the object although the create failed with `error`.

    A gateway's 502 and 504, a timeout of etcd and an unknown 500 say nothing about the write.
    """
    decision = classify_create_error(error)
    return decision.may_exist if isinstance(decision, RetryCreate) else decision.kind is InfraKind.APISERVER


def infra_from_error(error: ClusterError, *, did_run: DidRun = DidRun.NO) -> Infra:
    """The answer for a step whose pod or Secret senro could not create because of `error`."""
    decision = classify_create_error(error)
    hint = decision.hint if isinstance(decision, GiveUp) else ""
    message = f"{error}. {hint}" if hint and hint != INFRA_KINDS[decision.kind].hint else str(error)
    return Infra(decision.kind, did_run, message=message)


def infra_from_refused_access(
    error: ClusterError, *, otherwise: InfraKind, did_run: DidRun, node: str = "", may_be_alive: bool = False
) -> Infra:
    """The answer for a step whose existing pod senro may not read or open an exec in any more, because of `error`.

    `otherwise` is the kind if the identity's rights are not the reason.
    """
    match error:
        case Unauthorized():
            kind = InfraKind.UNAUTHORIZED
        case Forbidden(response=response) if _VERB_REFUSED.search(response.message):
            kind = InfraKind.FORBIDDEN
        case _:
            kind = otherwise
    return Infra(kind, did_run, may_be_alive=may_be_alive, message=str(error), node=node)


def _by_text(table: _Texts, message: str, default: Decision) -> Decision:
    return next((decision for pattern, decision in table if re.search(pattern, message)), default)
