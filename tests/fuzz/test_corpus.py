"""What fuzzing starts from, and what it found, is given to its check in every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib.verdict.fuzz import CORPUS, check
from tests.lib.verdict.observations import recorded_pods

INPUTS = sorted(CORPUS.glob("*.json"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_an_input(path: Path) -> None:
    """Nothing raises, whatever was found before."""
    check(path.read_bytes())


def test_the_corpus_has_every_recorded_pod() -> None:
    """Each recorded pod is a seed of the corpus."""
    assert {path.stem for path in INPUTS} >= {f"{scenario}-{name}" for scenario, name in recorded_pods()}
