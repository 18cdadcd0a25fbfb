"""A sub-path stays in its volume: whatever a pod says, no other folder of the machine is mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lib.harness.devcluster import Client, Object, pod_manifest, state_of

VOLUME = {"name": "v", "emptyDir": {}}
NOT_YET = ("ContainerCreating", "PodInitializing")
MUST_BE_RELATIVE, MUST_NOT_CLIMB = "must be a relative path", "must not contain '..'"


def mounting(name: str, command: list[str], *, env: dict[str, str] | None = None, **mount: Any) -> Object:
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    step = {"env": variables, "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}
    return pod_manifest(name, command, step=step, volumes=[VOLUME])


def waiting(client: Client, name: str) -> Object:
    """Why the step waits, once the kubelet has looked at it."""

    def told(pod: Object | None) -> Object:
        return state_of(pod, "step").get("waiting", {}) if pod is not None else {}

    return told(client.until(name, lambda pod: told(pod).get("reason") not in {None, *NOT_YET})[-1])


@pytest.mark.parametrize("field", ["subPath", "subPathExpr"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/etc", MUST_BE_RELATIVE),
        ("/", MUST_BE_RELATIVE),
        ("/a/../..", MUST_BE_RELATIVE),
        ("..", MUST_NOT_CLIMB),
        ("../x", MUST_NOT_CLIMB),
        ("a/../../x", MUST_NOT_CLIMB),
        ("a/..", MUST_NOT_CLIMB),
    ],
)
def test_a_path_that_leads_out_is_refused(client: Client, name: str, field: str, path: str, words: str) -> None:
    """Absolute, or with `..` anywhere: 422 at the creation, in the apiserver's words, of init containers too."""
    manifest = mounting(name, ["true"])
    manifest["spec"]["containers"][0]["volumeMounts"][0][field] = path
    manifest["spec"]["initContainers"] = [{**manifest["spec"]["containers"][0], "name": "first"}]
    answer = client.http.post("/api/v1/namespaces/ci/pods", json=manifest)
    assert answer.status_code == 422, answer.text
    told = {cause["field"]: cause["message"] for cause in answer.json()["details"]["causes"]}
    assert told == {
        f"spec.{group}[0].volumeMounts[0].{field}": f'Invalid value: "{path}": {words}'
        for group in ("containers", "initContainers")
    }


def test_one_way_to_say_it(client: Client, name: str) -> None:
    """A sub-path and an expression beside it are refused together."""
    answer = client.http.post(
        "/api/v1/namespaces/ci/pods", json=mounting(name, ["true"], subPath="a", subPathExpr="$(B)")
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "$(B)": subPathExpr and subPath are mutually exclusive',
            "field": "spec.containers[0].volumeMounts[0].subPathExpr",
        }
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/etc", "error SubPath `/etc` must not be an absolute path"),
        ("../x", "unable to provision SubPath `../x`: must not contain '..'"),
        ("a/../../x", "unable to provision SubPath `a/../../x`: must not contain '..'"),
        ("x" * 300, 'failed to prepare subPath for volumeMount "v" of container "step"'),
        ("x\0y", 'failed to prepare subPath for volumeMount "v" of container "step"'),
    ],
)
def test_an_expression_is_looked_at_once_it_is_expanded(client: Client, name: str, value: str, words: str) -> None:
    """What a variable brings keeps to the same rules: the container waits with CreateContainerConfigError."""
    client.create(mounting(name, ["true"], env={"B": value}, subPathExpr="$(B)"))
    assert waiting(client, name) == {"reason": "CreateContainerConfigError", "message": words}
    client.delete(name, gracePeriodSeconds=0)


def linked(name: str, link: str, below: str) -> Object:
    """A pod whose init container makes a link in the volume, and whose step mounts what is below it."""
    manifest = mounting(name, ["sh", "-c", "cat /data/secret; echo mine > /data/made"], subPath=below)
    first = {
        "name": "first",
        "image": manifest["spec"]["containers"][0]["image"],
        "command": ["sh", "-c", f"cd /data && mkdir -p inside && echo told > inside/secret && ln -s '{link}' link"],
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
    }
    manifest["spec"]["initContainers"] = [first]
    return manifest


@pytest.mark.parametrize("below", ["link", "link/deeper"])
@pytest.mark.parametrize("relative", [True, False])
def test_a_link_does_not_lead_out(client: Client, name: str, tmp_path: Path, below: str, *, relative: bool) -> None:
    """A link that a container left in the volume is followed within it alone; nothing is made behind it."""
    (tmp_path / "secret").write_text("the host's")
    link = f"{'../' * 40}{str(tmp_path)[1:]}" if relative else str(tmp_path)
    client.create(linked(name, link, below))
    assert waiting(client, name) == {
        "reason": "CreateContainerConfigError",
        "message": 'failed to prepare subPath for volumeMount "v" of container "step"',
    }
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    client.delete(name, gracePeriodSeconds=0)


def test_a_link_within_the_volume(client: Client, name: str) -> None:
    """One that stays is followed."""
    client.create(linked(name, "inside", "link"))
    assert client.finished(name)["status"]["phase"] == "Succeeded"
    assert client.log(name).text == "told\n"


@pytest.mark.parametrize("kind", ["client", "mapped"])
def test_two_containers_share_a_sub_path(request: pytest.FixtureRequest, name: str, kind: str) -> None:
    """A sub-path is made once, and every container that mounts it sees the same folder, whatever runs it."""
    client: Client = request.getfixturevalue(kind)
    manifest = mounting(name, ["sh", "-c", "cat /elsewhere/a/told"])
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/elsewhere/a", "subPath": "x/y"}]
    first = {
        **manifest["spec"]["containers"][0],
        "name": "first",
        "command": ["sh", "-c", "echo told > /senro/ws/told"],
        "volumeMounts": [{"name": "v", "mountPath": "/senro/ws", "subPath": "x/y"}],
    }
    manifest["spec"]["initContainers"] = [first]
    client.create(manifest)
    assert client.finished(name)["status"]["phase"] == "Succeeded", client.log(name, "first").text
    assert client.log(name).text == "told\n"
