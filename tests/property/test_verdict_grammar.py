"""Laws of the verdict over pods drawn from a grammar of the states that real clusters show (tests/support_laws.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from tests.support_laws import LAWS
from tests.support_pods import Choose, choosers


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(choose=choosers())
def test_a_law(law: Callable[[Choose], None], choose: Choose) -> None:
    """Each law of the verdict holds, whatever a cluster shows."""
    law(choose)
