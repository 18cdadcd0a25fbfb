from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from senro.domain.errors import ClusterError, ErrorResponse, Forbidden, Unauthorized, Unavailable, Unreachable
from senro.domain.requests.absence import CONFIRM_SECONDS, CREATE_LAG_SECONDS, Absence
from senro.domain.requests.poll_failures import FAILING_SECONDS, REFUSED_SECONDS, PollFailures


@given(st.lists(st.tuples(st.floats(0.01, 5.0), st.booleans()), min_size=1, max_size=40))
def test_only_unbroken_404s_prove_an_absence(polls: list[tuple[float, bool]]) -> None:
    """A pod is gone exactly if every answer of the last two seconds, ten before the first read, was a 404."""
    absence, at, answers = Absence(), 0.0, []
    for pause, found in polls:
        at += pause
        absence = absence.after_pod() if found else absence.after_404(at)
        answers.append((at, found))
        series = list(itertools.takewhile(lambda one: not one[1], reversed(answers)))
        needed = CONFIRM_SECONDS if any(one[1] for one in answers) else CREATE_LAG_SECONDS
        assert absence.is_proof(at) == (bool(series) and at - series[-1][0] >= needed)


ERRORS: list[ClusterError] = [
    Forbidden("read", ErrorResponse(403)),
    Unauthorized("read", ErrorResponse(401)),
    Unavailable("read", ErrorResponse(503)),
    Unreachable("read", cause="refused", sent=False),
]


@given(st.lists(st.tuples(st.floats(0.01, 40.0), st.sampled_from(ERRORS)), min_size=1, max_size=60))
def test_a_failure_ends_a_step_exactly_if_it_lasts(polls: list[tuple[float, ClusterError]]) -> None:
    """Fifteen minutes of any failure end a step, and a minute in which every poll was refused."""
    failures, at, seen = PollFailures(), 0.0, []
    for pause, error in polls:
        at += pause
        failures = failures.after(error, at)
        seen.append((at, isinstance(error, Forbidden | Unauthorized)))
        refused = list(itertools.takewhile(lambda one: one[1], reversed(seen)))
        lasting = bool(refused) and at - refused[-1][0] >= REFUSED_SECONDS
        assert failures.ends_the_step(at) == (lasting or at - seen[0][0] >= FAILING_SECONDS)
