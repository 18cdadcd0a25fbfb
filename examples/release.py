"""A release: written here, built in a pod, checked in another one, listed here again.

    senro plan examples/release.py
    senro run examples/release.py

Needs the SENRO_K8S_* variables; `senro devcluster` serves a cluster and prints them. The image below is the embedded
cluster's; set SENRO_EXAMPLE_IMAGE and SENRO_EXAMPLE_NAMESPACE for a real one.
"""

import os

import senro
from senro import k8s, retry

IMAGE = os.environ.get("SENRO_EXAMPLE_IMAGE", "registry.dev/tools@sha256:" + "5e" * 32)
NAMESPACE = os.environ.get("SENRO_EXAMPLE_NAMESPACE", "ci")

pod = k8s.Pod(IMAGE, namespace=NAMESPACE)
src = senro.Workspace("src")
release = senro.Pipeline("release")

source = release.workflow("source")
source.step(
    "write",
    ["sh", "-c", "printf 'int main(void) { return 0; }\n' > main.c && echo 'wrote main.c on this machine'"],
    mounts=[src.at("/src")],
    workdir="/src",
)

build = release.workflow("build", needs=["source"], on=pod)
build.step(
    "make",
    ["sh", "-c", 'mkdir -p dist && cat main.c > dist/app && chmod +x dist/app && echo "built in $(hostname)"'],
    mounts=[src.at("/src")],
    workdir="/src",
    retry=retry.on_infra(attempts=3),
    timeout=120,
)
build.step(
    "check",
    ["sh", "-c", "test -x dist/app && ! touch dist/new 2>/dev/null && echo 'checked: whole, and read-only'"],
    needs=["make"],
    mounts=[src.at("/src", "ro")],
    workdir="/src",
)

publish = release.workflow("publish", needs=["build"])
publish.step(
    "list",
    ["sh", "-c", "ls -l dist"],
    mounts=[src.at("/src", "ro")],
    workdir="/src",
)
