"""The error to report of an exception group. Imports nothing heavy: `senro --help` loads this module."""

from __future__ import annotations

from senro.domain.errors import SenroError


def single_error(error: BaseException) -> BaseException:
    """Returns the first `SenroError` in a group and its subgroups, else the group's first exception.

    A task group raises a group even for a single error. An `error` that is no group is returned as it is.
    """
    leaves = _leaves(error)
    return next((leaf for leaf in leaves if isinstance(leaf, SenroError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
