"""What a replay needs besides the requests: identities, the actions of an administrator, images."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from senro.devcluster import IMAGE, DevCluster
from senro.devcluster.apiserver.access import RUNNER_RULES, Rule
from tests.lib.harness.devcluster import Client, Object, recording

TIME_SCALE = 0.1
"""The kubelet takes a tenth of its real time; the sleeps of commands take their own."""

_RUNNER = "localhost/senro/runner@sha256:f8648823c762eb516699f47609cdc35c350c48946cf2ccba56fc4512096d2bf3"

IMAGES = {_RUNNER: IMAGE}
"""The images of the embedded cluster for recorded ones."""

_ROTATED = ("sh", "-c", "sleep 1; seq 1 1800000; sleep {}; seq 1800001 1800010")
COMMANDS = {
    # A pause of the command, which the cluster's clock does not shorten.
    tuple(word.format(25) for word in _ROTATED): tuple(word.format(2) for word in _ROTATED),
    # The program of a distroless image, which does not exist here.
    ("/app",): ("sleep", "600"),
}
"""Replacements for recorded commands."""

OPTIONS: dict[str, Any] = {"toleration_seconds": 10, "capacity": {"cpu": "2"}}
"""The configuration of the recorded cluster: short tolerations of unreachable nodes, two CPUs."""

_KEPT_SHORT = re.compile(r"<(\d+) characters, beginning '(.*)'>", re.DOTALL)
_LONG = 100_000
"""The length from which the recordings keep only the length and the beginning of a string."""

_PATIENCE = 10.0
"""Maximum seconds to wait for a state of a pod."""

_SILENT = 0.5
"""Seconds after which a command without output counts as one that prints nothing."""

_INFORMATION = ("gave up waiting", "the garbage collector", "followed from", "read once more", "kubelet")


class World:
    """The cluster, its clients and its administrator."""

    def __init__(self, cluster: DevCluster, scenario: str) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.as_administrator = False
        self._clients: dict[str, Client] = {}
        self._versions: dict[str, str] = {}

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def client(self, identity: str) -> Client:
        """Returns a client of an identity: runner, administrator, anonymous or wrong."""
        if identity not in self._clients:
            tokens = {
                "runner": None,
                "anonymous": "",
                "wrong": "nobody-has-this",
                "administrator": self.cluster.access.admin_token,
            }
            self._clients[identity] = Client(self.cluster, token=tokens[identity])
        return self._clients[identity]

    @property
    def administrator(self) -> httpx.Client:
        return self.client("administrator").http

    def pod(self, name: str) -> Object | None:
        """Returns the current pod; None if it is gone."""
        for pod in self.cluster.pods("ci"):
            if pod["metadata"]["name"] == name:
                return pod
        return None

    def wait_seconds(self, seconds: float) -> float:
        """Returns how long to wait for a state: longer if the recording itself is slow."""
        return {"log-rotation": 60.0}.get(self.scenario, seconds * 2)

    def map_body(self, document: Object) -> Object:
        """Returns a body with the images and resourceVersions of this cluster, and shortened strings at full length."""
        document = with_mapped_commands(_lengthen(document))
        spec = document.get("spec") or {}
        for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
            container["image"] = IMAGES.get(container["image"], container["image"])
        meta = document.get("metadata") or {}
        if "resourceVersion" in meta:
            meta["resourceVersion"] = self._version(meta["name"], meta["resourceVersion"])
        for owner in meta.get("ownerReferences") or []:
            pod = self.pod(owner["name"])
            owner["uid"] = pod["metadata"]["uid"] if pod is not None else owner["uid"]
        return document

    def _version(self, name: str, recorded: str) -> str:
        """Returns the resourceVersion of the embedded cluster for a recorded one."""
        if recorded not in self._versions:
            lease = next(item for item in self.cluster.leases("ci") if item["metadata"]["name"] == name)
            self._versions[recorded] = lease["metadata"]["resourceVersion"]
        return self._versions[recorded]

    def watch_parameter(self, key: str, value: str) -> str:
        """Returns a parameter of a watch, from the current version and with a short timeout."""
        if key == "resourceVersion" and value != "1":
            answer = self.administrator.get("/api/v1/namespaces/ci/pods")
            return str(answer.json()["metadata"]["resourceVersion"])
        return "4" if key == "timeoutSeconds" and int(value) > 4 else value

    # --- actions of the administrator ---------------------------------------------------------------------------

    def act(self, note: str) -> None:
        """Performs the action of a note, if it has one."""
        if note.startswith("the same two as an identity"):
            self.as_administrator = True
            return
        if found := re.fullmatch(r"event: (\w+) (\w+): (.*)", note):
            told = [(item["type"], item["reason"], item["message"]) for item in self.cluster.events("ci")]
            assert found.groups() in told, (note, told)
            return
        if not note.startswith("administrator: "):
            assert note.startswith(_INFORMATION), note
            return
        action = note.removeprefix("administrator: ")
        for pattern, perform in self._actions.items():
            if found := re.fullmatch(pattern, action):
                perform(*found.groups())
                return
        raise AssertionError(f"nobody knows how to do this: {note}")

    @property
    def _actions(self) -> dict[str, Callable[..., None]]:
        return {
            r"delete pod r-preemptor, .*": lambda: None,
            r"delete pod (\S+), gracePeriodSeconds=(\d+)": self._delete_after_output,
            r"POST eviction of (\S+)": self._evict,
            r"the role's verbs on pods/exec are now (.*)": self._exec_verbs,
            r"pod r-preemptor of a higher PriorityClass wants .*": self._preempt,
            r"node taint dedicated=x:NoExecute": self._taint,
            r"node taint dedicated=x:NoExecute-": lambda: self.cluster.untaint_node("dedicated"),
            r"the kubelet is stopped": self.cluster.silence_node,
            r"the kubelet is started again": self.cluster.revive_node,
        }

    def _delete_after_output(self, name: str, grace: str) -> None:
        self._until_output(name)
        self._delete(name, int(grace))

    def _preempt(self) -> None:
        self._until_output("r-preempt")
        self.cluster.evict("ci", "r-preempt", reason="Preempted")

    def _taint(self) -> None:
        self._until_output("r-taint")
        self.cluster.taint_node("dedicated", "x")

    def during(self, scenario: str, position: int) -> None:
        """Performs what happened during an exchange, where no note says so."""
        if (scenario, position) != ("watch", 1):
            return
        created = self.administrator.post("/api/v1/namespaces/ci/pods", json=_watched_pod())
        assert created.status_code == 201, created.text
        self.until("r-watched", lambda pod: pod is not None and pod["status"]["phase"] == "Succeeded")
        self._delete("r-watched", 0)

    def until(self, name: str, holds: Any) -> None:
        """Checks the pod at each change until `holds` is true."""
        end = time.monotonic() + _PATIENCE
        version = self.cluster.version
        while not holds(self.pod(name)):
            left = end - time.monotonic()
            assert left > 0, f"{name} did not come to what was waited for"
            self.cluster.changed_since(version, within=left)
            version = self.cluster.version

    def _delete(self, name: str, grace: int) -> None:
        answer = self.administrator.request(
            "DELETE", f"/api/v1/namespaces/ci/pods/{name}", params={"gracePeriodSeconds": grace}
        )
        assert answer.status_code == 200, answer.text

    def _evict(self, name: str) -> None:
        self._until_output(name)
        self.cluster.evict("ci", name)

    def _exec_verbs(self, listed: str) -> None:
        verbs = re.findall(r"'(\w+)'", listed)
        rules = [rule for rule in RUNNER_RULES if rule.resources != ("pods/exec",)]
        self.cluster.access.set_runner_rules([*rules, Rule("", ("pods/exec",), tuple(verbs))])

    def _until_output(self, name: str) -> None:
        """Waits until the command prints something. The recorded commands print `up` after they set their trap."""
        self.until(name, lambda pod: pod is None or any("waiting" not in state for state in _states(pod)))
        path, timeout = f"/api/v1/namespaces/ci/pods/{name}/log", httpx.Timeout(_PATIENCE, read=_SILENT)
        with (
            suppress(httpx.ReadTimeout),
            self.administrator.stream("GET", path, params={"follow": "true"}, timeout=timeout) as answer,
        ):
            next(answer.iter_raw(), b"")


def _states(pod: Object) -> list[Object]:
    """Returns the state of each container that has one."""
    return [status["state"] for status in pod["status"].get("containerStatuses") or []]


def identity_of(scenario: str, position: int, world: World) -> str:
    """Returns the identity of a recorded request. The recordings contain no credentials, but name the identity."""
    if scenario == "connection":
        return {1: "wrong", 2: "anonymous"}.get(position, "runner")
    if scenario == "watch" or world.as_administrator:
        return "administrator"
    return "runner"


def prepare(world: World) -> None:
    """Creates what existed before the scenario."""
    if world.scenario == "refused-namespaces":
        _restricted_namespaces(world.administrator)
    elif world.scenario == "connection":
        # The role at the time of the recording: pods/exec with create alone, leases without delete.
        world.cluster.access.set_runner_rules(
            [
                Rule("", ("pods",), ("create", "get", "delete")),
                Rule("", ("pods/log",), ("get",)),
                Rule("", ("pods/exec",), ("create",)),
                Rule("", ("secrets",), ("create", "patch", "delete")),
                Rule("coordination.k8s.io", ("leases",), ("get", "create", "update", "patch")),
            ]
        )


def _restricted_namespaces(http: httpx.Client) -> None:
    """Creates namespaces that refuse: a quota of no pods, PodSecurity restricted, and one with a finalizer."""

    def create(path: str, document: Object) -> None:
        answer = http.post(path, json=document)
        assert answer.status_code == 201, answer.text

    def namespace(name: str, **labels: str) -> None:
        create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})

    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    namespace("senro-quota")
    namespace("senro-restricted", **{"pod-security.kubernetes.io/enforce": "restricted"})
    namespace("senro-terminating")
    for name in ("senro-quota", "senro-restricted"):
        rules = [{"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]}]
        create(f"{rbac}/{name}/roles", {"metadata": {"name": "pods"}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "senro-runner", "namespace": "ci"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"}
        create(f"{rbac}/{name}/rolebindings", {"metadata": {"name": "pods"}, "subjects": [subject], "roleRef": role})
    create(
        "/api/v1/namespaces/senro-quota/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    )
    held = {"metadata": {"name": "held", "finalizers": ["senro.example/held"]}}
    create("/api/v1/namespaces/senro-terminating/configmaps", held)
    assert http.delete("/api/v1/namespaces/senro-terminating").status_code == 200


def _lengthen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lengthen(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_lengthen(item) for item in value]
    found = _KEPT_SHORT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    size, beginning = int(found[1]), found[2]
    text = (beginning * (size // len(beginning) + 1))[:size]
    # A Secret's value is base64, so it ends like one of 1,048,576 bytes.
    return text[:-2] + "==" if set(beginning) <= set("eHh4") else text


def with_mapped_commands(value: Any, key: str = "") -> Any:
    """Returns a document with the replacements of COMMANDS."""
    if isinstance(value, dict):
        return {name: with_mapped_commands(item, name) for name, item in value.items()}
    if isinstance(value, list):
        if key == "command" and (replacement := COMMANDS.get(tuple(value))):
            return list(replacement)
        return [with_mapped_commands(item) for item in value]
    return value


def shorten(value: str) -> str:
    """Returns a string as the recordings store it."""
    return f"<{len(value)} characters, beginning {value[:12]!r}>" if len(value) > _LONG else value


def _watched_pod() -> Object:
    """Returns the pod that was created during a watch (recording watch)."""
    exchange = recording("watch")["exchanges"][1]
    body = b"".join(base64.b64decode(chunk["base64"]) for chunk in exchange["response"]["chunks"])
    pod = json.loads(body.splitlines()[0])["object"]
    meta = {key: pod["metadata"][key] for key in ("name", "labels", "annotations")}
    container = pod["spec"]["containers"][0]
    container["image"] = IMAGES.get(container["image"], container["image"])
    grace = pod["spec"]["terminationGracePeriodSeconds"]
    spec = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": grace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
