"""Consistency of the project's own files."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tokenize
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import senro

ROOT = Path(__file__).parents[3]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
SETTINGS: dict[str, Any] = tomllib.loads(PYPROJECT)
PROJECT: dict[str, Any] = SETTINGS["project"]
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
RECORDINGS = ROOT / "tests" / "contract" / "recordings"
FOLDERS = ("senro", "tests", "examples", "benchmarks")
CODE = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))


def name_of(requirement: str) -> str:
    """Returns the name of the package in a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[._-]+", "-", found.group()).lower()


def test_the_python_versions() -> None:
    """Python 3.11 is the oldest version for every tool, and all versions to 3.14 are named."""
    prefix = "Programming Language :: Python :: "
    versions = [name.removeprefix(prefix) for name in PROJECT["classifiers"] if name.startswith(prefix)]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == ">=3.11"
    assert SETTINGS["tool"]["mypy"]["python_version"] == "3.11"
    assert SETTINGS["tool"]["ruff"]["target-version"] == "py311"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel, built by hatchling without a network."""
    assert SETTINGS["build-system"]["build-backend"] == "hatchling.build"
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    assert path.name == f"senro-{PROJECT['version']}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.mark.slow
def test_the_content_of_the_wheel(wheel: zipfile.ZipFile) -> None:
    """It has senro's source files, `py.typed` and the metadata, and nothing else."""
    names = set(wheel.namelist())
    metadata = f"senro-{PROJECT['version']}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"senro", metadata}
    sources = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("senro/**/*.py")}
    assert {name for name in names if name.startswith("senro/")} == sources | {"senro/py.typed"}
    assert b"senro = senro.cli.main:main" in wheel.read(f"{metadata}/entry_points.txt")
    assert wheel.read(f"{metadata}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_the_wheel_requires_what_senro_imports(wheel: zipfile.ZipFile) -> None:
    """It requires exactly the packages that senro imports directly."""
    metadata: Message = message_from_bytes(wheel.read(f"senro-{PROJECT['version']}.dist-info/METADATA"))
    asked = [str(line) for line in metadata.get_all("Requires-Dist", [])]
    needed = {name_of(line) for line in asked if "extra ==" not in line}
    assert needed == {name_of(line) for line in PROJECT["dependencies"]}
    packages = {"pyyaml": "yaml", "backports-zstd": "backports"}
    text = "".join(path.read_text() for path in ROOT.glob("senro/**/*.py"))
    imported = set(re.findall(r"^ *(?:from|import) (\w+)", text, re.MULTILINE)) - set(sys.stdlib_module_names)
    # rich and obstore are extras; pytest imports the plugin itself; Python 3.14 has compression.
    others = {"senro", "rich", "obstore", "pytest", "compression"}
    assert imported - others == {packages.get(name, name) for name in needed}


def test_each_dependency_has_its_line() -> None:
    """ARCHITECTURE.md has one line for each dependency and each package of an extra, and no other."""
    wanted = [name_of(line) for line in PROJECT["dependencies"]]
    for extra, lines in PROJECT["optional-dependencies"].items():
        wanted += [f"{name_of(line)} (extra `{extra}`)" for line in lines]
    table = ARCHITECTURE[ARCHITECTURE.index("| package | why it is here |") :]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)[1:]
    rows = [(name, why) for name, why in rows if name != "---"]
    assert sorted(name for name, _ in rows) == sorted(wanted)
    assert all(len(why.split()) > 2 for _, why in rows)


def test_each_tool_is_named() -> None:
    """ARCHITECTURE.md names each package for development, except type stubs."""
    paragraph = ARCHITECTURE[ARCHITECTURE.index("For development:") :]
    tools = [name_of(line) for line in SETTINGS["dependency-groups"]["dev"]]
    words = {word.lower() for word in re.findall(r"[\w.-]*\w", paragraph)}
    silent = [tool for tool in tools if not {tool, tool.removeprefix("pytest-")} & words]
    assert [tool for tool in silent if not tool.startswith("types-")] == []


def test_architecture_names_every_package() -> None:
    """ARCHITECTURE.md has a picture, a line for each package, and at most 150 lines."""
    assert len(ARCHITECTURE.splitlines()) <= 150
    packages = {path.parent.name for path in ROOT.glob("senro/*/__init__.py")}
    packages |= {path.parent.name for path in ROOT.glob("senro/domain/*/__init__.py")}
    assert [
        name for name in sorted(packages) if f"`{name}`" not in ARCHITECTURE and f"senro.{name}`" not in ARCHITECTURE
    ] == []
    assert "adapters" in ARCHITECTURE.split("```")[1]


def test_each_ignored_rule_has_its_reason() -> None:
    """Ruff selects all rules. Each ignored rule is on its own line, with a reason."""
    lint = SETTINGS["tool"]["ruff"]["lint"]
    assert lint["select"] == ["ALL"]
    ignored = [*lint["ignore"], *(code for codes in lint["per-file-ignores"].values() for code in codes)]
    text = PYPROJECT[PYPROJECT.index("[tool.ruff.lint]") : PYPROJECT.index("[tool.ruff.lint.pydocstyle]")]
    reasons = re.findall(r'^    "([A-Z]+\d*)", *# (\S.*)$', text, re.MULTILINE)
    assert [code for code, _ in reasons] == ignored
    assert all(len(reason.split()) >= 2 for _, reason in reasons)


def test_mypy_is_strict_everywhere() -> None:
    """Mypy is strict, and the only exceptions are foreign packages without types, each with a reason."""
    settings = dict(SETTINGS["tool"]["mypy"])
    overrides = settings.pop("overrides")
    assert settings["strict"] is True
    loose = {"ignore_errors", "disable_error_code", "ignore_missing_imports", "follow_imports", "exclude"}
    assert loose & settings.keys() == set()
    assert [value for value in settings.values() if value is False] == []
    for override in overrides:
        assert set(override) == {"module", "ignore_missing_imports"}
        assert [name for name in override["module"] if name.split(".")[0] in {"senro", "tests", "*"}] == []
    assert len(re.findall(r"^\[\[tool\.mypy\.overrides\]\]\n# \w.+$", PYPROJECT, re.MULTILINE)) == len(overrides)


def test_each_exception_has_its_code_and_reason() -> None:
    """Each exception from ruff or mypy names the rule and a reason on its line; none is for a whole file."""
    allowed = re.compile(r"# noqa: [A-Z]+\d+(, [A-Z]+\d+)* - \S.+|# type: ignore\[[a-z-]+(, [a-z-]+)*\] +# \S.+")
    wrong = []
    for path in CODE:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.COMMENT:
                at = re.search(r"# *(noqa|type: *ignore|ruff:|mypy:|pylint:|pyright:|flake8:)", token.string)
                if at is not None and not allowed.fullmatch(token.string[at.start() :]):
                    wrong.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
    assert wrong == []


def test_the_readmes_pipeline_builds() -> None:
    """The first code block of the README is a valid pipeline."""
    code = README[README.index("```python") + len("```python") :]
    names: dict[str, Any] = {}
    exec(code[: code.index("```")], names)
    plan = names["p"].build()
    assert [planned.step.id for planned in plan.steps] == ["build.make", "deploy.apply"]
    assert [workspace.name for workspace in plan.workspaces] == ["src"]


def test_the_readme_names_three_commands() -> None:
    """The first shell block is `make demo`, `make check` and `make test`."""
    first = README[README.index("```\n", README.index("## Try it")) + 4 :]
    lines = first[: first.index("```")].splitlines()
    assert [line.partition("#")[0].strip() for line in lines] == ["make demo", "make check", "make test"]


def test_every_target_exists() -> None:
    """Each `make TARGET` in the README is in the Makefile, and sets up its environment."""
    named = set(re.findall(r"make ([a-z][a-z-]*)", README)) - {"dist"}  # a command of the README's pipeline
    assert {"demo", "test", "soak", "bench", "test-cluster"} <= named
    for target in named:
        found = re.search(rf"^{target}:(.*)$", MAKEFILE, re.MULTILINE)
        assert found is not None, target
        assert "$(VENV)/" in found[1] or found[1].strip() == "lint", target
    assert re.search(r"^lint: \$\(VENV\)/\.dev$", MAKEFILE, re.MULTILINE)


def test_ci_runs_make_check_and_make_test() -> None:
    """.ci/run is executable, stops at the first error, sets CI, and ends with `make check` and `make test`."""
    path = ROOT / ".ci" / "run"
    lines = path.read_text().splitlines()
    assert lines[-2:] == ["make check", "make test"]
    assert "set -euo pipefail" in lines
    assert [line for line in lines if line.startswith("export CI=true")]
    assert path.stat().st_mode & 0o111 == 0o111


def test_the_licence_and_the_changes() -> None:
    """The licence is Apache-2.0, and CHANGELOG.md has a section for this version, which the package has too."""
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text()
    assert f"\n## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()
    assert senro.__version__ == PROJECT["version"]


def test_each_port_has_its_suite() -> None:
    """Each protocol and class of senro/ports that an adapter or a fake implements has a conformance suite."""
    suites = "".join(path.read_text() for path in ROOT.glob("tests/contract/ports/*_suite.py"))
    for path in ROOT.glob("senro/ports/*.py"):
        words = re.findall(r"^class (\w+)\(.*Protocol\):|^class (Reporter):", path.read_text(), re.MULTILINE)
        parts = {"Pods", "Logs", "Execs", "Secrets", "Events", "Leases"}  # Cluster combines them
        for name in {protocol or base for protocol, base in words} - parts - {"StepLog", "Unpacking", "Archive"}:
            assert re.search(rf"\bfrom senro\.ports\.{path.stem} import .*\b{name}\b", suites), name


def test_the_recordings_are_unchanged() -> None:
    """The recordings are complete and unchanged: `sha256sum -c ../recordings.sha256`."""
    lines = (RECORDINGS.parent / "recordings.sha256").read_text().splitlines()
    recorded = {name: digest for digest, name in (line.split("  ") for line in lines)}
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RECORDINGS.iterdir()}
    assert sorted(there) == sorted(recorded)
    assert there == recorded
