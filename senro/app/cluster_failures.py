"""What a request that failed means for the step that it was made for."""

from __future__ import annotations

from senro.domain.errors import ApiError, ClusterError, Forbidden, Rejected, Throttled, Unauthorized
from senro.domain.verdict import DidRun, Infra, InfraKind


def infra_of(error: ClusterError, *, did_run: DidRun = DidRun.NO, node: str = "", may_be_alive: bool = False) -> Infra:
    """The answer for a step whose pod cannot be created, read or reached because of `error`."""
    return Infra(kind_of(error), did_run, may_be_alive=may_be_alive, message=str(error), node=node)


def kind_of(error: ClusterError) -> InfraKind:
    """The kind of Infra, by the code and, where one code has several causes, by the apiserver's own words.

    The words are those of the recordings `refused`, `refused-namespaces` and `connection`.
    """
    match error:
        case Unauthorized():
            return InfraKind.UNAUTHORIZED
        case Forbidden(answer=answer):
            return _forbidden(answer.message)
        case Rejected():
            return InfraKind.ADMISSION
        case Throttled():
            return InfraKind.APISERVER
        case ApiError(answer=answer) if "failed calling webhook" in answer.message:
            return InfraKind.ADMISSION_TRANSIENT
        case _:
            return InfraKind.APISERVER


def _forbidden(message: str) -> InfraKind:
    if "exceeded quota" in message:
        return InfraKind.QUOTA
    if "violates PodSecurity" in message or "denied the request" in message or "being terminated" in message:
        return InfraKind.ADMISSION
    return InfraKind.FORBIDDEN
