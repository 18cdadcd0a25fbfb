"""Whole numbers of a query: read as Go reads them, ASCII digits and 64 bits.

See docs/design/api-rules.md#log-parameters.
"""

from __future__ import annotations

import re

from senro.devcluster.apiserver.status import bad_request

_INTEGER = re.compile("[+-]?[0-9]+")
_MOST_DIGITS = 20
LEAST, GREATEST = -(2**63), 2**63 - 1
"""What a Go int64 holds."""


def parse_integer(text: str) -> int:
    """The number; 400 where it is none, or does not fit into 64 bits."""
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    # Leading zeros aside, a longer one is out of range, and is not computed.
    number = int(text) if len(text.lstrip("+-0")) <= _MOST_DIGITS else GREATEST + 1
    if not LEAST <= number <= GREATEST:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def is_version(text: str) -> bool:
    """Whether a text can be a resourceVersion: ASCII digits, of no more than 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
