"""What senro makes of a failed create."""

from __future__ import annotations

import json
from typing import Any

import pytest

from senro.domain.errors import ClusterError, ProtocolError, StreamBroken, Unreachable
from senro.domain.kube.status import api_error, decode_error_response
from senro.domain.verdict import DidRun, Infra, InfraKind
from senro.domain.verdict.creation import (
    Decision,
    GiveUp,
    RetryCreate,
    classify_create_error,
    infra_from_error,
    infra_from_refused_access,
    may_have_been_stored,
)
from tests.lib.fakes.cluster import refusal
from tests.lib.verdict.observations import exchanges

QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
BASELINE = 'pods "x" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
WEBHOOK = 'Internal error occurred: failed calling webhook "v.acme.example": context deadline exceeded'
ENDING = 'pods "x" is forbidden: unable to create new content in namespace gone because it is being terminated'
DENIED_BY_OUTAGE = 'admission webhook "w" denied the request: Post "https://policy": context deadline exceeded'
LIMITS = 'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: senro-stage'
CONFLICT = 'Operation cannot be fulfilled on resourcequotas "q": the object has been modified'


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refusal("create", 401, "Unauthorized", "Unauthorized"), InfraKind.UNAUTHORIZED),
        (
            refusal("create", 403, "Forbidden", 'pods is forbidden: User "ci" cannot create resource'),
            InfraKind.FORBIDDEN,
        ),
        (refusal("create", 403, "Forbidden", ""), InfraKind.FORBIDDEN),
        (refusal("create", 403, "Forbidden", QUOTA), InfraKind.QUOTA),
        (refusal("create", 403, "Forbidden", SECURITY), InfraKind.POD_SECURITY),
        (refusal("create", 403, "Forbidden", BASELINE), InfraKind.POD_SECURITY),
        (refusal("create", 403, "Forbidden", ENDING), InfraKind.ADMISSION),
        (refusal("create", 403, "", 'admission webhook "w" denied the request: no'), InfraKind.ADMISSION),
        (refusal("create", 500, "", 'admission webhook "w" denied the request: no'), InfraKind.ADMISSION),
        (refusal("create", 422, "", 'admission webhook "w" denied the request: no'), InfraKind.ADMISSION),
        (refusal("create", 403, "", DENIED_BY_OUTAGE), InfraKind.ADMISSION_TRANSIENT),
        (refusal("create", 500, "", DENIED_BY_OUTAGE), InfraKind.ADMISSION_TRANSIENT),
        (refusal("create", 400, "", DENIED_BY_OUTAGE), InfraKind.ADMISSION_TRANSIENT),
        (refusal("create", 403, "", "a proxy's own page"), InfraKind.ADMISSION),
        (refusal("create", 403, "", 'pods "x" is forbidden: '), InfraKind.FORBIDDEN),
        (refusal("create", 409, "AlreadyExists", "pods x already exists"), InfraKind.ADMISSION),
        (refusal("create", 422, "Invalid", "Pod is invalid"), InfraKind.ADMISSION),
        (refusal("create", 400, "BadRequest", "unknown field"), InfraKind.ADMISSION),
        (refusal("create", 413, "RequestEntityTooLarge", "limit is 3145728"), InfraKind.ADMISSION),
        (refusal("create", 429, "TooManyRequests", "slow down"), InfraKind.APISERVER),
        (refusal("create", 500, "InternalError", WEBHOOK), InfraKind.ADMISSION_TRANSIENT),
        (refusal("create", 500, "InternalError", "etcd"), InfraKind.APISERVER),
        (refusal("create", 404, "NotFound", 'namespaces "x" not found'), InfraKind.ADMISSION),
        (Unreachable("create", cause="refused", sent=False), InfraKind.APISERVER),
        (StreamBroken("exec", cause="reset"), InfraKind.APISERVER),
        (ProtocolError("create", rule="a Pod", got="HTML"), InfraKind.APISERVER),
    ],
    ids=lambda value: str(value)[:60],
)
def test_each_failure_has_its_kind(error: ClusterError, kind: InfraKind) -> None:
    """The kind depends on the error, and on the message if one HTTP status has several causes."""
    assert infra_from_error(error).kind is kind


def test_the_message_is_the_error() -> None:
    """The step did not run unless the caller knows better; the message is the error's sentence."""
    error = refusal("create pod ci/make-1", 403, "Forbidden", QUOTA)
    assert infra_from_error(error) == Infra(InfraKind.QUOTA, DidRun.NO, message=str(error))
    assert infra_from_error(error, did_run=DidRun.MAYBE) == Infra(InfraKind.QUOTA, DidRun.MAYBE, message=str(error))


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (401, "Unauthorized", InfraKind.UNAUTHORIZED),
        (403, 'pods "a" is forbidden: User "u" cannot get resource "pods"', InfraKind.FORBIDDEN),
        (403, "a proxy's own page", InfraKind.APISERVER),
        (422, "spec: Invalid value", InfraKind.APISERVER),
        (503, "", InfraKind.APISERVER),
    ],
)
def test_a_refused_read_has_its_own_message(code: int, message: str, kind: InfraKind) -> None:
    """A read that is refused does not get the hints of a refused create."""
    error = refusal("read pod ci/make-1", code, "", message)
    answer = infra_from_refused_access(
        error, otherwise=InfraKind.APISERVER, did_run=DidRun.YES, node="n", may_be_alive=True
    )
    assert answer == Infra(kind, DidRun.YES, may_be_alive=True, message=str(error), node="n")


def recorded() -> list[tuple[str, Any]]:
    """The refusals of pods in the recordings."""
    found = []
    for scenario in ("refused", "refused-namespaces"):
        for exchange in exchanges(scenario):
            response = exchange.get("response", {})
            request = exchange["request"]
            if request["method"] == "POST" and request["path"].endswith("/pods") and response.get("status", 0) >= 400:
                found.append((scenario, response))
    return found


WORDS = {
    "exceeded quota": "quota",
    "violates PodSecurity": "pod-security",
    "being terminated": "admission",
    "service account": "config",
    "RuntimeClass": "config",
    "PriorityClass": "config",
    "per Container": "limit-range",
}


@pytest.mark.parametrize(("scenario", "response"), recorded())
def test_recorded_refusals_have_their_kind(scenario: str, response: dict[str, Any]) -> None:
    """Each recorded refusal of a pod has the kind of its cause: admission, quota or rights."""
    body = json.dumps(response["json"]).encode() if "json" in response else b""
    answer = decode_error_response(response["status"], body)
    kind = infra_from_error(api_error(f"create pod ({scenario})", answer)).kind
    named = [kind for words, kind in WORDS.items() if words in answer.message]
    if response["status"] == 403:
        assert kind.value == (named[0] if named else "forbidden")
    else:
        assert kind is InfraKind.ADMISSION


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (refusal("create", 409, "Conflict", CONFLICT), RetryCreate(1.0, may_exist=False)),
        (refusal("create", 409, "Conflict", "another"), GiveUp(InfraKind.ADMISSION)),
        (
            refusal("create", 403, "Forbidden", QUOTA),
            RetryCreate(5.0, may_exist=False, budget="quota", kind=InfraKind.QUOTA, message="waiting for quota"),
        ),
        (
            refusal("create", 500, "InternalError", WEBHOOK),
            RetryCreate(
                1.0, may_exist=False, kind=InfraKind.ADMISSION_TRANSIENT, message="waiting for an admission webhook"
            ),
        ),
        (refusal("create", 500, "", "etcdserver: request timed out"), RetryCreate(0.0, may_exist=True)),
        (refusal("create", 500, "InternalError", "who knows"), GiveUp(InfraKind.APISERVER)),
        (refusal("create", 503, "ServiceUnavailable", "shutting down", 7.0), RetryCreate(7.0, may_exist=True)),
        (refusal("create", 504, "Timeout", "no leader", 3.0), RetryCreate(3.0, may_exist=True)),
        (refusal("create", 429, "", "Too many requests"), RetryCreate(1.0, may_exist=False)),
        (refusal("create", 429, "", "Too many requests", 4.0), RetryCreate(4.0, may_exist=False)),
        (Unreachable("create", cause="reset", sent=True), RetryCreate(0.0, may_exist=True)),
        (Unreachable("create", cause="refused", sent=False), RetryCreate(0.0, may_exist=False)),
    ],
    ids=lambda value: str(value)[:60],
)
def test_which_errors_repeat_a_create_and_when(error: ClusterError, decision: Decision) -> None:
    """A transient error has a delay and a budget; `may_exist` is True if the object may have been stored."""
    assert classify_create_error(error) == decision


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        *((refusal("create", code, "", "away"), True) for code in (502, 503, 504)),
        (refusal("create", 500, "", "etcdserver: request timed out"), True),
        (refusal("create", 500, "InternalError", "who knows"), True),
        (ProtocolError("create", rule="a pod", got="nothing"), True),
        (Unreachable("create", cause="reset", sent=True), True),
        (Unreachable("create", cause="refused", sent=False), False),
        (refusal("create", 500, "InternalError", WEBHOOK), False),
        (refusal("create", 500, "", "etcdserver: request is too large"), False),
        *((refusal("create", code, "", "no"), False) for code in (400, 401, 403, 409, 422, 429)),
        (refusal("create", 403, "Forbidden", QUOTA), False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_may_have_been_stored(error: ClusterError, *, stored: bool) -> None:
    """After a refusal nothing was stored; after any other error something may have been."""
    assert may_have_been_stored(error) is stored


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (SECURITY, 'security="restricted"'),
        (LIMITS, "transfer_resources="),
        (LIMITS.replace("senro-stage", "step"), "resources="),
        ("etcdserver: request is too large", "shorten"),
        ("error looking up service account ci/x", "service_account="),
    ],
)
def test_a_refusal_names_the_option_that_satisfies_it(message: str, words: str) -> None:
    """The message quotes the apiserver and says what to set."""
    code = 500 if "etcd" in message else 403
    told = infra_from_error(refusal("create", code, "", message)).message
    assert message in told
    assert words in told
