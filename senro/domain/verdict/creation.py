"""What to do when a create of a pod or a Secret is not answered with 201: look first, ask again, or give up.

One table, first match wins. A create is never repeated blindly: `lost` says that the request may have taken effect, and
the 409 that then comes back is looked at before it is believed (design.md section 4).
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
from senro.domain.requests.idempotency import ETCD, PASSING, THROTTLED_SECONDS, WEBHOOK
from senro.domain.verdict import DidRun, Infra, InfraKind, about

Patience = Literal["trouble", "quota"]
"""Whose clock a repetition belongs to: the short one of a control plane in trouble, or the step's own start timeout."""

TROUBLE_SECONDS = 60.0
"""How long a create is repeated through troubles. What a step waits for longer is not a trouble but an outage."""

QUOTA_PAUSE = 5.0
"""Seconds between two creates while a quota is used up; each pause is twice the one before, 30 s at most."""


@dataclass(frozen=True, slots=True)
class Again:
    """Ask again. `after` is the least wait in seconds, `saying` what a person is told meanwhile, if anything."""

    after: float
    lost: bool
    patience: Patience = "trouble"
    saying: str = ""


@dataclass(frozen=True, slots=True)
class Final:
    """Asking again changes nothing. `hint` names the option that satisfies the refusal, where there is one."""

    kind: InfraKind
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of the apiserver by which one code's causes are told apart, and where it is known from."""

    pattern: re.Pattern[str]
    move: Again | Final
    source: str


_CONFLICTS = (
    _Text(
        re.compile(r"resourcequotas"),
        Again(1.0, lost=False),
        "quota's own optimistic lock; the pod was not created (issue C)",
    ),
)

_FORBIDDEN = (
    _Text(
        re.compile(r"exceeded quota"),
        Again(QUOTA_PAUSE, lost=False, patience="quota", saying="waiting for quota"),
        "recording refused-namespaces",
    ),
    _Text(
        re.compile(r"must specify (?:limits|requests)\.\S+ for: [^;]*senro-"),
        Final(
            InfraKind.QUOTA, "Give the pod transfer_resources= as well: the namespace's quota counts every container."
        ),
        "the quota admission's words for a container without the resource that it counts",
    ),
    _Text(
        re.compile(r"failed quota|must specify (?:limits|requests)\."),
        Final(InfraKind.QUOTA, "Give the pod resources=: the namespace's quota wants them."),
        "as above, for the step's own container",
    ),
    _Text(
        re.compile(r'violates PodSecurity "restricted'),
        Final(InfraKind.ADMISSION, 'Set security="restricted" and user= (not 0) on k8s.Pod.'),
        "recording refused-namespaces",
    ),
    _Text(
        re.compile(r"violates PodSecurity"),
        Final(InfraKind.ADMISSION, "Change what the message names, or the namespace's Pod Security level."),
        "the same plugin for another level",
    ),
    _Text(
        re.compile(r"error looking up service account"),
        Final(InfraKind.ADMISSION, "Create the ServiceAccount, or correct service_account= on k8s.Pod."),
        "recording refused; facts/api-rules.md section 3",
    ),
    _Text(
        re.compile(r"is being terminated"),
        Final(InfraKind.ADMISSION, "The namespace is being deleted: use another, or wait until it is made anew."),
        "recording refused-namespaces",
    ),
    _Text(re.compile(r"denied the request"), Final(InfraKind.ADMISSION), "a validating webhook's refusal"),
    _Text(re.compile(r"\bcannot (?:create|patch|get|delete)\b"), Final(InfraKind.FORBIDDEN), "recording connection"),
)

_SERVER_ERRORS = (
    _Text(
        WEBHOOK,
        Again(THROTTLED_SECONDS, lost=False, saying="waiting for an admission webhook"),
        "an admission webhook that times out or cannot be reached comes before anything is stored",
    ),
    _Text(
        ETCD,
        Again(0.0, lost=True),
        "etcd's own words; the write may have been stored",
    ),
    _Text(
        re.compile(r"etcdserver: request is too large"),
        Final(InfraKind.ADMISSION, "The object is larger than etcd takes: shorten command, env or the secrets."),
        "facts/api-rules.md section 11",
    ),
)


def after_refusal(error: ClusterError) -> Again | Final:
    """The move after `error`, whatever it says: unknown 4xx are final, unknown 500 too, after a look."""
    match error:
        case Unreachable(sent=sent):
            return Again(0.0, lost=sent)
        case Throttled(answer=answer):
            return Again(THROTTLED_SECONDS if answer.retry_after is None else answer.retry_after, lost=False)
        case Unauthorized():
            return Final(InfraKind.UNAUTHORIZED)
        case Conflict(answer=answer):
            return _by_text(_CONFLICTS, answer.message, Final(InfraKind.ADMISSION))
        case Forbidden(answer=answer):
            return _by_text(_FORBIDDEN, answer.message, Final(InfraKind.FORBIDDEN))
        case Rejected():
            return Final(InfraKind.ADMISSION, "Correct the field that the message names.")
        case Unavailable(answer=answer):
            passing = answer.code in PASSING or answer.retry_after is not None
            unknown = Again(0.0, lost=True) if passing else Final(InfraKind.APISERVER)
            move = _by_text(_SERVER_ERRORS, answer.message, unknown)
            asked = answer.retry_after or 0.0
            return replace(move, after=max(move.after, asked)) if isinstance(move, Again) else move
        case ApiError():
            return Final(InfraKind.ADMISSION)
        case _:
            return Final(InfraKind.APISERVER)


def may_be_stored(error: ClusterError) -> bool:
    """Whether a create that ended so may have been stored, or still be: asked again or not, it has to be looked for.

    A gateway's 502 and 504, etcd's own timeouts and a 500 or an answer that nobody knows say nothing of the write.
    """
    move = after_refusal(error)
    return move.lost if isinstance(move, Again) else move.kind is InfraKind.APISERVER


def _by_text(table: tuple[_Text, ...], message: str, otherwise: Again | Final) -> Again | Final:
    return next((row.move for row in table if row.pattern.search(message)), otherwise)


def refused(error: ClusterError, *, did_run: DidRun = DidRun.NO, node: str = "", may_be_alive: bool = False) -> Infra:
    """The answer for a step whose pod could not be created, or read any more, because of `error`."""
    move = after_refusal(error)
    if isinstance(move, Final):
        kind, hint = move.kind, move.hint
    else:
        kind = InfraKind.QUOTA if move.patience == "quota" else InfraKind.APISERVER
        kind = InfraKind.ADMISSION_TRANSIENT if "webhook" in move.saying else kind
        hint = ""
    said = str(error) if not hint or hint == about(kind).hint else f"{error}. {hint}"
    return Infra(kind, did_run, may_be_alive=may_be_alive, message=said, node=node)
