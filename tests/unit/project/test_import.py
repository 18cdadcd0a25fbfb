"""A pod imports a pipeline file with only the standard library, and `import senro` is fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

BLOCKED = """\
import importlib.abc, json, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "senro", "release"}:
            raise ModuleNotFoundError(f"{name} is not part of the standard library", name=name)

sys.meta_path.insert(0, Blocked())
before = set(sys.modules)
"""

PIPELINE = """\
import senro
from senro import k8s, retry, secret

runner = k8s.Pod("ghcr.io/acme/runner@sha256:" + "9f2c" * 16, namespace="ci", resources={"limits": {"cpu": 1}})
p = senro.Pipeline("release")
src = senro.Workspace("src", path=".", exclude=["*.o"])
build = p.workflow("build", on=senro.local())
make = build.step("make", ["make", "dist"], mounts=[src.at("/src")], workdir="/src")
deploy = p.workflow("deploy", needs=["build"], on=runner)
deploy.step(
    "apply",
    ["helm", "upgrade"],
    mounts=[src.at("/src", "ro"), senro.ScratchCache("gomod", key="{{ hash_files('go.sum') }}").at("/go")],
    secrets={"KUBECONFIG": "Kubeconfig"},
    retry=retry.on_infra(attempts=3),
    timeout=600,
)
values = {"Kubeconfig": secret.file("kubeconfig.yaml"), "A": secret.variable("A"), "B": secret.value("b")}
names = [senro.Step, senro.Workflow, senro.Mount, senro.SenroError, senro.PlanError, senro.ConfigurationError]
"""

HEAVY = {"asyncio", "msgspec", "ssl", "http", "logging", "subprocess", "socket", "email", "urllib.request", "anyio"}
"""Modules that a pipeline file must not import."""


def loaded_modules(program: str, folder: Path) -> set[str]:
    """Returns the modules that the program imports, in an isolated interpreter."""
    path = [str(ROOT), str(folder)]
    script = f"{BLOCKED}sys.path[:0] = {path!r}\n{program}\nprint(json.dumps(sorted(set(sys.modules) - before)))\n"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False, timeout=60, cwd=folder
    )
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout))


def test_senro_needs_only_the_standard_library(tmp_path: Path) -> None:
    """`import senro` imports itself and no expensive module."""
    modules = loaded_modules("import senro", tmp_path)
    assert {name for name in modules if name.startswith("senro")} == {"senro", "senro._version"}
    assert not modules & HEAVY


def test_a_pipeline_file_needs_only_the_standard_library(tmp_path: Path) -> None:
    """Every name that a pipeline file uses works without other packages."""
    (tmp_path / "release.py").write_text(PIPELINE)
    modules = loaded_modules("import release", tmp_path)
    assert not modules & HEAVY
    assert not [name for name in modules if name.startswith(("senro.app", "senro.adapters", "senro.devcluster"))]


def test_build_needs_only_the_standard_library(tmp_path: Path) -> None:
    """So does `build`, also if it refuses the pipeline."""
    (tmp_path / "release.py").write_text(PIPELINE)
    program = (
        "import release, senro\nassert len(release.p.build().steps) == 2\n"
        "try:\n    senro.Pipeline('Bad').build()\nexcept senro.PlanError as error:\n    assert error.refusals"
    )
    assert "senro.domain.plan.plan" in loaded_modules(program, tmp_path)


@pytest.mark.parametrize("name", ["run", "run_sync", "Result"])
def test_running_a_plan_needs_packages(tmp_path: Path, name: str) -> None:
    """The isolation works: running a plan fails in it with the name of a missing package."""
    program = f"import senro\ntry:\n    senro.{name}\nexcept ModuleNotFoundError as error:\n    assert error.name"
    modules = loaded_modules(f"{program}\nelse:\n    assert senro.{name}.__module__ == 'senro.api.result'", tmp_path)
    assert "senro" in modules
