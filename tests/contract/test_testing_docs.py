"""Runs the examples of docs/testing.md with pytest, in a separate project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from senro.devcluster import DevClusterThread

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"
_BLOCK = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_examples_pass(tmp_path: Path) -> None:
    """A project of only the examples passes: pytest finds the plugin, and the fixtures work as described."""
    with DevClusterThread() as cluster:
        if cluster.mode != "bubblewrap":
            pytest.skip(f"bubblewrap cannot run: {cluster.mode_reason}")
    files = dict(_BLOCK.findall(DOCUMENT.read_text()))
    assert files.keys() == {"test_release.py", "test_disruptions.py", "test_cluster.py", "conftest.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = sum(text.count("\ndef test_") for text in files.values())
    assert f"{tests} passed" in done.stdout


def test_the_plugin_imports_only_pytest() -> None:
    """Loading the plugin, as pytest does in every project with senro, imports no client and no cluster."""
    program = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import senro.testing.plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) == {"senro", "senro._version", "senro.testing", "senro.testing.plugin"}
