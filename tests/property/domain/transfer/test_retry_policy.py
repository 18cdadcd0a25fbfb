from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import senro
from senro.app.pod.transfer_failure import TransferFailure
from senro.domain import errors
from senro.domain.errors import (
    AlreadyExists,
    ApiError,
    ClusterError,
    Conflict,
    ErrorResponse,
    Forbidden,
    NotFound,
    ProtocolError,
    Rejected,
    StreamBroken,
    Throttled,
    TreeError,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from senro.domain.transfer.retry_policy import (
    BROKEN_RULES,
    BROKEN_TRIES,
    LOCAL_RULES,
    PATIENCE_SECONDS,
    REFUSED_OPENINGS,
    TRIES,
    RetryDecision,
    TransferBackoff,
    decide_retry,
)

ASKED = "exec in senro-io of pod ci/make-1"


def answered(kind: type[ApiError], code: int, retry_after: float | None = None) -> ApiError:
    return kind(ASKED, ErrorResponse(code=code, retry_after=retry_after))


MOVES: list[tuple[Exception, RetryDecision]] = [
    (answered(Throttled, 429), RetryDecision("wait", 1.0)),
    (answered(Throttled, 429, 0.0), RetryDecision("wait", 0.0)),
    (answered(Throttled, 429, 7.5), RetryDecision("wait", 7.5)),
    (answered(Unavailable, 500), RetryDecision("wait")),
    (answered(Unavailable, 503, 30.0), RetryDecision("wait", 30.0)),
    (Unreachable(ASKED, cause="refused", sent=False), RetryDecision("wait")),
    (Unreachable(ASKED, cause="reset", sent=True), RetryDecision("wait")),
    (answered(NotFound, 404), RetryDecision("end")),
    (answered(Forbidden, 403), RetryDecision("end")),
    (answered(Unauthorized, 401), RetryDecision("end")),
    (answered(Rejected, 400), RetryDecision("end")),
    (answered(Conflict, 409), RetryDecision("end")),
    (answered(AlreadyExists, 409), RetryDecision("retry")),
    (answered(ApiError, 418), RetryDecision("retry")),
    (ProtocolError(ASKED, rule="a", got="b"), RetryDecision("end")),
    (StreamBroken(ASKED, cause="reset"), RetryDecision("retry")),
    (ClusterError(ASKED), RetryDecision("retry")),
    (TreeError("a", "truncated", "cut"), RetryDecision("retry")),
    (TreeError("a", "link-escapes", "out"), RetryDecision("end")),
    (TreeError("a", "io", "full"), RetryDecision("end")),
    (TransferFailure("no proof line came"), RetryDecision("retry")),
]


BEFORE_THE_FIRST_WORD: list[tuple[Exception, RetryDecision]] = [
    (answered(NotFound, 404), RetryDecision("wait")),
    (answered(Rejected, 400), RetryDecision("wait")),
    (answered(Rejected, 422), RetryDecision("end")),
    (answered(Forbidden, 403), RetryDecision("end")),
    (StreamBroken(ASKED, cause="reset"), RetryDecision("wait")),
    (StreamBroken(ASKED, cause="reset", sent=1), RetryDecision("retry")),
    (TransferFailure("InternalError: connection refused"), RetryDecision("wait")),
    (TreeError("a", "truncated", "cut"), RetryDecision("retry")),
    (answered(Unavailable, 503, 30.0), RetryDecision("wait", 30.0)),
]


@pytest.mark.parametrize(("error", "move"), BEFORE_THE_FIRST_WORD, ids=lambda value: type(value).__name__)
def test_what_fails_before_the_commands_first_word_is_no_try(error: Exception, move: RetryDecision) -> None:
    """Nothing was moved yet: a kubelet that catches up or restarts is waited for, whatever it answers."""
    assert decide_retry(error, begun=False) == move


@pytest.mark.parametrize(("error", "move"), MOVES, ids=lambda value: type(value).__name__)
def test_moves(error: Exception, move: RetryDecision) -> None:
    """What moved nothing is waited for, what broke is a try, what no repetition mends is the end."""
    assert decide_retry(error) == move


def test_every_error_of_a_transfer_has_its_move_here() -> None:
    """No class that a cluster, a tree or the far side may raise is left out of the table."""
    kinds = {
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ClusterError | TreeError)
    }
    assert {type(error) for error, _ in MOVES} == kinds | {TransferFailure}


CONTENT_RULES = frozenset(
    {"digest", "duplicate", "hardlink", "index", "limit", "link", "parent", "path", "size", "type"}
)
"""The rules of what came whole and must not be unpacked, or cannot be packed."""


def rules_in_use() -> set[str]:
    """The rules of all `TreeError`s that the package raises, where they stand as words."""
    found = set()
    for path in Path(senro.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TreeError":
                rule = node.args[1]
                if isinstance(rule, ast.Constant):
                    found.add(str(rule.value))
    return found


def test_every_rule_is_of_one_kind() -> None:
    """What broke on its way, what failed on this machine, what the step left: a new rule has to be put somewhere."""
    kinds = BROKEN_RULES, LOCAL_RULES, CONTENT_RULES
    assert rules_in_use() <= frozenset().union(*kinds)
    assert sum(len(kind) for kind in kinds) == len(frozenset().union(*kinds))


@pytest.mark.parametrize("rule", sorted(BROKEN_RULES | LOCAL_RULES | CONTENT_RULES))
def test_only_a_broken_archive_is_asked_for_again(rule: str) -> None:
    """The other rules end the same each time."""
    assert decide_retry(TreeError("a", rule, "words")).move == ("retry" if rule in BROKEN_RULES else "end")


afters = st.floats(0, 600)
breaks = st.builds(RetryDecision, st.sampled_from(["wait", "retry", "end"]), afters)


@given(st.lists(afters, min_size=TRIES, max_size=TRIES), st.lists(st.tuples(st.integers(0, TRIES - 1), afters)))
def test_three_retries_end(retries: list[float], waits: list[tuple[int, float]]) -> None:
    """Whatever was waited in between, the third break that counts is the last, and no wait is a try."""
    backoff, at = TransferBackoff(), 0.0
    for number, after in enumerate(retries):
        for _, wait in [entry for entry in waits if entry[0] == number]:
            before = backoff.tries
            assume(wait < PATIENCE_SECONDS)
            assert backoff.next_wait(RetryDecision("wait", wait), at, 0.0) is not None
            assert backoff.tries == before
        pause = backoff.next_wait(RetryDecision("retry", after), at, 0.0)
        assert backoff.tries == number + 1
        assert (pause is None) == (number + 1 == TRIES)
        at += pause or 0.0


@given(st.lists(breaks, max_size=5))
def test_an_end_ends(before: list[RetryDecision]) -> None:
    """There is no pause after it, it is no try, whatever came before."""
    backoff = TransferBackoff()
    for taken in before:
        backoff.next_wait(taken, 0.0, 0.0)
    tries = backoff.tries
    assert backoff.next_wait(RetryDecision("end", 5.0), 0.0, 0.0) is None
    assert backoff.tries == tries


@given(st.lists(st.floats(0.0, 600.0), min_size=1, max_size=8))
@example([PATIENCE_SECONDS])
def test_a_quarter_of_an_hour_of_waits_ends(gaps: list[float]) -> None:
    """Unbroken waits end with the first that comes so long after the first of them, and not before."""
    backoff, at = TransferBackoff(), 5000.0
    assert backoff.next_wait(RetryDecision("wait"), at, 0.0) is not None
    for gap in gaps:
        at += gap
        assert (backoff.next_wait(RetryDecision("wait"), at, 0.0) is None) == (at - 5000.0 >= PATIENCE_SECONDS)


@given(st.floats(0, 2 * PATIENCE_SECONDS), st.floats(0, PATIENCE_SECONDS - 1))
def test_a_try_begins_the_patience_anew(first: float, later: float) -> None:
    """An exec that was opened shows that the control plane is back: the next refusals have their own quarter."""
    backoff = TransferBackoff()
    backoff.next_wait(RetryDecision("wait"), 0.0, 0.0)
    assert backoff.next_wait(RetryDecision("retry"), first, 0.0) is not None
    assert backoff.next_wait(RetryDecision("wait"), first, 0.0) is not None
    assert backoff.next_wait(RetryDecision("wait"), first + later, 0.0) is not None


@given(st.lists(breaks.filter(lambda decision: decision.move != "end"), max_size=40), st.floats(0, 1, exclude_max=True))
def test_pauses_are_bounded_and_never_shorter_than_asked(decisions: list[RetryDecision], fraction: float) -> None:
    """Retry-After is respected; the own waits of tries and of refused openings grow within their policies."""
    backoff, counts = TransferBackoff(), {"retry": 0, "wait": 0}
    for decision in decisions:
        wait = backoff.next_wait(decision, 0.0, fraction)
        if wait is None:
            assert backoff.tries >= TRIES
            return
        policy = BROKEN_TRIES if decision.move == "retry" else REFUSED_OPENINGS
        assert wait == policy.wait(counts[decision.move], fraction=fraction, requested=decision.after)
        assert decision.after <= wait <= max(policy.longest, decision.after + policy.longest / 2)
        counts[decision.move] += 1
        if decision.move == "retry":
            counts["wait"] = 0
