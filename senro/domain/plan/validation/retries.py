"""The rules for a retry policy."""

from __future__ import annotations

from typing import Final, cast

from senro.domain.pipeline.retry import Retry, RetryOn
from senro.domain.plan.validation.field_reader import FieldReader, is_instance, quote

MOST_ATTEMPTS: Final = 1000
"""A limit against typing errors; with the default waits these attempts take most of a day."""

LARGEST_FACTOR: Final = 1000
"""The largest base whose 64th power is a float: see `Retry.delay_before`."""


def read_retry(value: object, reader: FieldReader) -> Retry | None:
    """The policy; None if there is none, or its type is wrong."""
    if value is None:
        return None
    if not is_instance(value, Retry):
        reader.refuse("type", f"retry is {quote(value)}; write senro.retry.on_infra(attempts=3)")
        return None
    attempts = value.attempts
    if is_instance(attempts, int) and attempts < 2:
        reader.refuse(
            "retry-attempts",
            f"retry has attempts={quote(attempts)}, which repeats nothing; attempts counts the first try too, "
            "so write 2 or more, or leave retry out",
        )
        attempts = 2
    before = len(reader.refusals)
    policy = Retry(
        attempts=reader.integer(attempts, "attempts of retry", "retry-attempts", 2, MOST_ATTEMPTS),
        on=cast("RetryOn", reader.one_of(value.on, "on of retry", ("infra", "failure", "any"), "retry-on")),
        delay=reader.seconds(value.delay, "delay of retry", "retry-delay", zero=True),
        factor=reader.number(value.factor, "factor of retry", "retry-factor", 1, LARGEST_FACTOR),
        max_delay=reader.seconds(value.max_delay, "max_delay of retry", "retry-delay", zero=True),
        unsafe=reader.flag(value.unsafe, "unsafe of retry"),
    )
    if policy.delay > policy.max_delay and len(reader.refusals) == before:
        reader.refuse(
            "retry-delay",
            f"delay={quote(policy.delay)} of retry is above max_delay={quote(policy.max_delay)}, which would cut it; "
            "raise max_delay",
        )
    return policy
