"""`tools/set-up` reports what is missing and how to fix it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def set_up(folder: Path, python: str | None) -> subprocess.CompletedProcess[str]:
    """Runs it with this script as the only `python3` on the path, without uv."""
    tools = folder / "bin"
    tools.mkdir()
    for name in ("sh", "touch"):
        (tools / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    if python is not None:
        (tools / "python3").write_text(f"#!/bin/sh\n{python}\n")
        (tools / "python3").chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(ROOT / "tools" / "set-up"), str(folder / "venv"), "demo"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    ("python", "words"),
    [
        (None, ["needs Python 3.11", "there is no python3"]),
        ('case "$*" in *version_info*) exit 1;; -V) echo Python 3.9.2;; esac', ["Python 3.9.2", "make PYTHON="]),
        ('case "$*" in *ensurepip*) exit 1;; esac', ["ensurepip", "apt-get install python3-venv", "uv"]),
    ],
    ids=["no-python", "too-old", "no-ensurepip"],
)
def test_a_missing_python_is_reported(tmp_path: Path, python: str | None, words: list[str]) -> None:
    """Without a usable Python it fails at once with a fix, and creates nothing."""
    done = set_up(tmp_path, python)
    assert done.returncode == 1
    assert all(word in done.stderr for word in words)
    assert not (tmp_path / "venv").exists()
