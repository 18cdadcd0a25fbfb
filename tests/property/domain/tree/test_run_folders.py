"""Run folders inside of what runs work on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.domain.tree.excludes import compile_excludes
from senro.domain.tree.run_folders import RUNS, runs_inside
from tests.lib.fakes.ledger import RUN_ID

_NAMES = st.text("ab*?\\!. \n", min_size=1, max_size=5).filter(lambda name: name not in {".", ".."})


@pytest.mark.parametrize(
    ("run_dir", "patterns"),
    [
        ("runs", ("runs/",)),
        (".senro/runs/", (".senro/runs/",)),
        ("/srv/ci/runs", ("runs/",)),
        ("/other/runs", ()),
        ("../runs", ()),
        ("..", ()),
        ("..runs", ("..runs/",)),
        (".", (RUNS,)),
        ("/srv/ci", (RUNS,)),
        ("", (RUNS,)),
    ],
)
def test_cases(run_dir: str, patterns: tuple[str, ...]) -> None:
    """The pattern for each place of the folder of runs, however it is written."""
    assert runs_inside("/srv/ci/", run_dir) == patterns


def test_runs_by_their_names() -> None:
    """A folder with the name of a run matches, and one that only begins like it does not."""
    runs = compile_excludes([RUNS])
    assert runs.matches(RUN_ID, directory=True)
    assert not runs.matches(RUN_ID, directory=False)
    assert not runs.matches(RUN_ID[:16], directory=True)
    assert not runs.matches(f"a/{RUN_ID}", directory=True)


@given(names=st.lists(_NAMES, min_size=1, max_size=3))
def test_any_name(names: list[str]) -> None:
    """Whatever characters the folder's name has, the pattern is valid and matches it and its content."""
    path = "/".join(names)
    pattern = compile_excludes(runs_inside("/srv/ci", path))
    assert pattern.matches(path, directory=True)
    assert pattern.matches(f"{path}/{RUN_ID}/f", directory=False)
