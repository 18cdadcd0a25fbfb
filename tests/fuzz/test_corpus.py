"""The corpus of the fuzzer, checked in every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lib.verdict.fuzz import CORPUS, check
from tests.lib.verdict.observations import recorded_pods

INPUTS = sorted(CORPUS.glob("*.json"))


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.stem)
def test_an_input_of_the_corpus(path: Path) -> None:
    """Nothing raises for any input, including those that the fuzzer found."""
    check(path.read_bytes())


def test_the_corpus_has_every_recorded_pod() -> None:
    """Each recorded pod is in the corpus."""
    assert {path.stem for path in INPUTS} >= {f"{scenario}-{name}" for scenario, name in recorded_pods()}
