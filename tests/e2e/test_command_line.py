"""The command line as a process: its output, its exit codes, what it reads and what it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from senro.app.local_attempt import GRACE_SECONDS
from senro.domain.run.events import (
    AttemptEnded,
    AttemptStarted,
    CancelRequested,
    PodDeleted,
    RunEnded,
    StepEnded,
    decode_event,
)
from senro.testing import Bench

ROOT = Path(__file__).parents[2]

PIPELINE = """
import senro
from senro import k8s
IMAGE, NAMESPACE = {image!r}, {namespace!r}
src = senro.Workspace("src", path="project")
p = senro.Pipeline("cli")
p.workflow("w", on=k8s.Pod(IMAGE, namespace=NAMESPACE)).step(
    "s", ["sh", "-c", {script!r}], mounts=[src.at("/w")], workdir="/w")
"""


def write(bench: Bench, script: str, *, size: int = 10) -> Path:
    """Writes a pipeline file with a step in a pod and a workspace of `size` bytes."""
    (bench.folder / "project").mkdir(exist_ok=True)
    (bench.folder / "project" / "file").write_bytes(os.urandom(size))
    path = bench.folder / "pipeline.py"
    path.write_text(PIPELINE.format(image=bench.image, namespace=bench.namespace, script=script))
    return path


def events(folder: Path) -> list[object]:
    """Returns the ledger of the only run below `folder`."""
    (ledger,) = folder.glob(".senro/runs/*/events.jsonl")
    return [decode_event(line) for line in ledger.read_bytes().splitlines()]


def seconds_to_end(ledger: list[object]) -> float:
    """Returns the seconds from the request to cancel the run to its end."""
    asked = next(event.at for event in ledger if isinstance(event, CancelRequested))
    ended = next(event.at for event in ledger if isinstance(event, RunEnded))
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(asked)).total_seconds()


def test_a_successful_run(bench: Bench) -> None:
    """It exits with 0, and prints plain lines without colours and carriage returns, and a summary."""
    write(bench, "echo hello from the pod")
    done = bench.cli("run", "pipeline.py")
    assert done.returncode == 0, done.stderr
    assert "w.s | hello from the pod" in done.stdout
    assert "succeeded" in done.stdout.splitlines()[-1]
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    assert done.stderr == ""


def test_a_failed_run(bench: Bench) -> None:
    """It exits with 1, and the summary names the step, its code and its log."""
    write(bench, "exit 7")
    done = bench.cli("run", "pipeline.py:p", "--quiet")
    assert done.returncode == 1
    assert "exited 7" in done.stdout
    assert "w.s" in done.stdout


BESIDE = """
import senro
p = senro.Pipeline("cli")
for name in "abc":
    p.workflow(name).step("s", ["sleep", "0.2"])
"""


def test_the_options_of_a_run(bench: Bench) -> None:
    """`--run-dir` is the folder of the run's folder; with `--jobs 1` a step starts after the other has ended."""
    (bench.folder / "pipeline.py").write_text(BESIDE)
    done = bench.cli("run", "pipeline.py", "--run-dir", "kept/here", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    (ledger,) = bench.folder.glob("kept/here/*/events.jsonl")
    order = [decode_event(line) for line in ledger.read_bytes().splitlines()]
    steps = [type(event) for event in order if isinstance(event, AttemptStarted | AttemptEnded)]
    assert steps == [AttemptStarted, AttemptEnded] * 3
    assert not (bench.folder / ".senro").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import senro\n", "no variable of the module is a senro.Pipeline"),
        ("import senro\nsenro.Pipline('x')\n", "line 2: AttributeError"),
        ("def (:\n", "line 1: SyntaxError"),
        ("import senro\np = senro.Pipeline('x')\np.workflow('w').step('s', [])\n", "1 problem"),
        ("import senro\np = senro.Pipeline('x')\nq = senro.Pipeline('y')\n", "which pipeline?"),
    ],
)
def test_an_error_in_the_file_is_one_message(bench: Bench, text: str, words: str) -> None:
    """It exits with 2 and a message, without a traceback."""
    (bench.folder / "p.py").write_text(text)
    for command in ("run", "plan"):
        done = bench.cli(command, "p.py")
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr + done.stdout


def test_an_unreachable_cluster(bench: Bench) -> None:
    """The command exits with 2, the address and the cause, before it starts anything."""
    write(bench, "true")
    done = bench.cli("run", "pipeline.py", env={"SENRO_K8S_SERVER": "https://127.0.0.1:1"})
    assert done.returncode == 2
    assert "no answer" in done.stderr
    assert not (bench.folder / ".senro").exists()


def test_a_plan_as_yaml(bench: Bench) -> None:
    """`plan --pods` prints pods that kubectl can create, without connecting to the cluster."""
    write(bench, "echo $HOME")
    done = bench.cli("plan", "pipeline.py", "--pods", env={"SENRO_K8S_SERVER": "https://127.0.0.1:1"})
    assert done.returncode == 0
    (pod,) = yaml.safe_load_all(done.stdout)
    assert pod["kind"] == "Pod"
    assert pod["spec"]["containers"][0]["command"] == ["sh", "-c", "echo $$HOME"]


AUDIT = """
import sys
opened = open({record!r}, "w")
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.write(repr(arguments[0]) + "\\n"); opened.flush()
sys.addaudithook(hook)
from senro.cli.main import main
main({words!r}, prog_name="senro")
"""


def test_no_kubeconfig_and_no_service_account_is_ever_read(bench: Bench) -> None:
    """With KUBECONFIG, ~/.kube/config and KUBERNETES_SERVICE_HOST but no SENRO_K8S_*, the run is refused by name."""
    home = bench.folder / "home"
    (home / ".kube").mkdir(parents=True)
    config = json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "users": []})
    for path in (home / ".kube" / "config", bench.folder / "kubeconfig"):
        path.write_text(config)
    write(bench, "true")
    record = bench.folder / "opened.txt"
    clean = {name: value for name, value in bench.environ.items() if not name.startswith("SENRO_K8S_")}
    done = subprocess.run(
        [sys.executable, "-c", AUDIT.format(record=str(record), words=["run", "pipeline.py"])],
        cwd=bench.folder,
        env={
            **clean,
            "HOME": str(home),
            "KUBECONFIG": str(bench.folder / "kubeconfig"),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    for name in ("SENRO_K8S_SERVER", "SENRO_K8S_CA_FILE", "SENRO_K8S_TOKEN_FILE"):
        assert name in done.stderr
    seen = record.read_text()
    assert "pipeline.py" in seen
    assert "kubeconfig" not in seen.lower().replace(str(bench.folder), "")
    assert "/.kube" not in seen
    assert "serviceaccount" not in seen
    assert not (bench.folder / ".senro").exists()


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("moment", "asked"),
    [
        ("staging", signal.SIGINT),
        ("running", signal.SIGINT),
        ("reading back", signal.SIGINT),
        ("running", signal.SIGTERM),
    ],
)
def test_ctrl_c(bench: Bench, moment: str, asked: signal.Signals) -> None:
    """During an upload, a command or a download: exit code 130 within 10 s, every step cancelled, nothing left."""
    script = {
        "staging": "true",
        "running": "trap '' TERM INT; echo begun; sleep 300",
        "reading back": "head -c 100000000 /dev/zero > big",
    }[moment]
    write(bench, script, size=100_000_000 if moment == "staging" else 10)
    process = subprocess.Popen(
        [sys.executable, "-m", "senro", "run", "pipeline.py", "--plain"],
        cwd=bench.folder,
        env=bench.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    wanted = {"staging": "w.s: staging", "running": "w.s | begun", "reading back": "w.s: reading back"}[moment]
    output = ""
    for line in process.stdout:
        output += line
        if wanted in line:
            break
    process.send_signal(asked)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output + rest
    assert f"cancelling: {asked.name}" in rest
    assert "cancelled" in rest.splitlines()[-1]
    assert "Traceback" not in output + rest
    ledger = events(bench.folder)
    assert seconds_to_end(ledger) < 10
    assert [event.state for event in ledger if isinstance(event, StepEnded)] == ["cancelled"]
    assert [event.outcome.kind for event in ledger if isinstance(event, AttemptEnded)] == ["cancelled"]
    assert [event.state for event in ledger if isinstance(event, RunEnded)] == ["cancelled"]
    assert all(event.confirmed for event in ledger if isinstance(event, PodDeleted))
    assert bench.cluster is None or bench.cluster.pods() == []
    (run,) = bench.folder.glob(".senro/runs/*")
    assert (run / "workspaces" / "src" / "file").stat().st_size in (10, 100_000_000)
    assert not (run / "workspaces" / "src" / "big").exists()


STUBBORN = """
import senro
p = senro.Pipeline("cli")
p.workflow("w").step("s", ["sh", "-c", "trap '' TERM INT; echo begun $$; while :; do sleep 0.1; done"])
"""


def test_a_second_ctrl_c_kills_local_steps(bench: Bench) -> None:
    """A local step that ignores SIGTERM is killed before its grace ends. Exit code 130, with a complete ledger."""
    (bench.folder / "pipeline.py").write_text(STUBBORN)
    process = subprocess.Popen(
        [sys.executable, "-m", "senro", "run", "pipeline.py", "--plain"],
        cwd=bench.folder,
        env=bench.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output, step = "", 0
    for line in process.stdout:
        output += line
        if "w.s | begun" in line:
            step = int(line.split()[-1])
            process.send_signal(signal.SIGINT)
        if "cancelling: SIGINT" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output + rest
    assert "Traceback" not in output + rest
    with pytest.raises(ProcessLookupError):
        os.kill(step, 0)
    ledger = events(bench.folder)
    assert seconds_to_end(ledger) < GRACE_SECONDS
    assert [event.state for event in ledger if isinstance(event, StepEnded)] == ["cancelled"]
    assert [event.state for event in ledger if isinstance(event, RunEnded)] == ["cancelled"]


def test_the_example_of_the_readme(bench: Bench) -> None:
    """`senro run examples/release.py` succeeds with the variables of `senro devcluster` in another process."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "senro", "devcluster", "--port", str(port)],
        env={name: value for name, value in bench.environ.items() if not name.startswith("SENRO_K8S_")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        exported = {}
        for line in server.stdout:
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").strip().partition("=")
                exported[name] = value.strip("'")
            if "Ctrl-C" in line:
                break
        assert set(exported) == {"SENRO_K8S_SERVER", "SENRO_K8S_CA_FILE", "SENRO_K8S_TOKEN_FILE"}
        assert exported["SENRO_K8S_SERVER"] == f"https://127.0.0.1:{port}"
        done = bench.cli("run", str(ROOT / "examples" / "release.py"), env=exported)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "checked: whole, and read-only" in done.stdout
        assert "succeeded" in done.stdout.splitlines()[-1]
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    assert server.returncode == 0


def test_a_port_in_use(bench: Bench) -> None:
    """`senro devcluster --port` with a port in use exits with 2 and a message."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = bench.cli("devcluster", "--port", str(port))
    assert done.returncode == 2
    assert f"port {port} cannot be served: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_demo(bench: Bench) -> None:
    """`senro demo` succeeds with a recovered step, shows the transfers, and explains the result."""
    done = bench.cli("demo", "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (r"build\.make: staged 4\.0 MB, \d+ files$", r"build\.make: read back 4\.0 MB, \d+ files$"):
        assert re.search(line, done.stdout, re.MULTILINE), done.stdout
    assert "ship.publish  recovered  2 attempts" in done.stdout
    assert "succeeded with recovery" in done.stdout
    assert done.stderr == ""


def test_the_demo_without_bubblewrap(bench: Bench) -> None:
    """Without bubblewrap the demo says so and does the same, with mapped volumes."""
    done = bench.cli("demo", "--plain", env={"SENRO_DEVCLUSTER_MODE": "mapped"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ship.publish  recovered  2 attempts" in done.stdout
    assert "succeeded with recovery" in done.stdout


def test_the_demo_ignores_the_users_cluster(bench: Bench) -> None:
    """The demo uses its own cluster, whatever SENRO_K8S_* the environment has."""
    elsewhere = {
        "SENRO_K8S_SERVER": "https://127.0.0.1:1",
        "SENRO_K8S_TOKEN": "made-up-token",
        "SENRO_K8S_TOKEN_FILE": "/nowhere/token",
        "SENRO_K8S_CA_FILE": "/nowhere/ca.crt",
        "SENRO_K8S_PROXY": "http://127.0.0.1:1",
        "SENRO_K8S_NAMESPACE": "elsewhere",
    }
    done = bench.cli("demo", "--plain", env=elsewhere)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ship.publish  recovered  2 attempts" in done.stdout
    assert "made-up-token" not in done.stdout + done.stderr
