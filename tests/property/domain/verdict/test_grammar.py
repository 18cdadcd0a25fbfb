"""Laws of the verdict (tests/lib/verdict/laws.py) for pods from a grammar of real states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from tests.lib.verdict.laws import LAWS
from tests.lib.verdict.pod_grammar import Choose, choosers


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(choose=choosers())
def test_a_law(law: Callable[[Choose], None], choose: Choose) -> None:
    """Each law of the verdict holds for any pods."""
    law(choose)
