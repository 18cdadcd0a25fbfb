from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from senro import __version__
from senro.cli.main import _exit, main
from senro.domain.errors import ConfigurationError, Refusal, RunBroken, SenroError, StoreError

ROOT = Path(__file__).parents[3]

PIPELINE = """\
import senro
from senro import k8s

p = senro.Pipeline("release")
p.workflow("build").step("make", ["make"])
p.workflow("deploy", needs=["build"], on=k8s.Pod("ghcr.io/acme/runner@sha256:" + "9f2c" * 16, namespace="ci")).step(
    "apply", ["helm"], secrets={"KUBECONFIG": "Kubeconfig"}
)
bad = senro.Pipeline("bad")
bad.workflow("w").step("x", [])
bad.workflow("w").step("y", "make", timeout=-1)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    Path("release.py").write_text(PIPELINE)
    return "release.py"


def senro(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_plan(file: str) -> None:
    """`senro plan FILE:NAME` prints the plan, exits with 0 and creates nothing."""
    result = senro("plan", f"{file}:p")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("pipeline release: 2 steps\n\nbuild.make  (local)\n  make\n")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["release.py"]


def test_plan_pods(file: str) -> None:
    """`--pods` prints each object that a run would create as YAML, without the values of secrets."""
    result = senro("plan", f"{file}:release", "--pods")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [document["kind"] for document in yaml.safe_load_all(result.stdout)] == ["Secret", "Pod"]


def test_a_refused_pipeline_prints_all_errors(file: str) -> None:
    """It exits with 2, with all refusals on stderr, nothing on stdout and no traceback."""
    result = senro("plan", f"{file}:bad")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("senro: the pipeline was refused: ")
    assert "w.x" in result.stderr
    assert "w.y" in result.stderr


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_missing_file_is_refused(command: str) -> None:
    """One message on stderr, exit code 2."""
    result = senro(command, "gone.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("senro: gone.py: there is no such file")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "Missing argument 'FILE[:NAME]'"),
        (["plan"], "Missing argument 'FILE[:NAME]'"),
        (["plan", "a.py", "b.py"], "unexpected extra argument"),
        (["run", "a.py", "--jobs", "0"], "'--jobs'"),
        (["run", "a.py", "--jobs", "many"], "'--jobs'"),
        (["run", "a.py", "--fast"], "No such option"),
        (["devcluster", "--port", "65536"], "'--port'"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str) -> None:
    """Exit code 2 and a message, before anything is read or started."""
    result = senro(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_command(option: str) -> None:
    """The help on stdout has the commands, the variables and the exit codes."""
    result = senro(option)
    assert result.exit_code == 0
    for word in ("run", "plan", "devcluster", "demo", "SENRO_K8S_SERVER", "130 cancelled"):
        assert word in result.stdout


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_help(command: str) -> None:
    """Each command has its own help, also with -h."""
    result = senro(command, "-h")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Usage: main {command}" in result.stdout


def test_version() -> None:
    """`senro --version` prints the version."""
    assert senro("--version").stdout == f"senro, version {__version__}\n"


def raises(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SenroError("no"), 2, "senro: no\n"),
        (
            ConfigurationError((Refusal("SENRO_K8S_SERVER", "missing", "it is not set"),)),
            2,
            "senro: the configuration was refused: 1 problem\n  SENRO_K8S_SERVER: it is not set\n",
        ),
        (
            RunBroken("runs/1", StoreError("events.jsonl", "No space left on device")),
            1,
            "senro: the run broke: events.jsonl: No space left on device; its ledger is in runs/1\n",
        ),
        (
            ExceptionGroup("", [ExceptionGroup("", [RunBroken("runs/1", SenroError("no"))])]),
            1,
            "senro: the run broke: no; its ledger is in runs/1\n",
        ),
        (ExceptionGroup("", [SenroError("no")]), 2, "senro: no\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_are_a_message_and_an_exit_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback: 2 for a refusal, 1 for a run that broke after its start, 130 for an interrupt."""
    with pytest.raises(SystemExit) as caught:
        _exit(lambda: raises(error))
    assert caught.value.code == code
    assert capsys.readouterr().err == words


@pytest.mark.parametrize("code", [0, 1, 130])
def test_the_exit_code_of_a_command(code: int) -> None:
    """The code that a command returns is the exit code of the process."""
    with pytest.raises(SystemExit) as caught:
        _exit(lambda: code)
    assert caught.value.code == code


@pytest.mark.slow
def test_a_closed_pipe_prints_no_traceback(file: str) -> None:
    """In `senro plan FILE | head -1` the pipe breaks, and senro exits with 1 without a message."""
    lines = "\n".join(f"p.workflow('w{n}').step('s', ['x' * 2_000])" for n in range(500))
    Path(file).write_text(f"{PIPELINE}{lines}\n")
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from senro.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", program, "plan", f"{file}:p"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_help_imports_little(tmp_path: Path) -> None:
    """`senro --help` imports neither the client nor the event loop."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom senro.cli.main import main\n"
        "try:\n    main(['--help'])\nfinally:\n"
        "    heavy = {'httpx', 'msgspec', 'anyio', 'asyncio', 'cryptography', 'yaml', 'rich'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, b"[]\n")
