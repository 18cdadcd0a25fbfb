"""Each image of the table behaves as its entry says."""

from __future__ import annotations

import pytest

from senro.devcluster.images import (
    IMAGE,
    IMAGES,
    ORDINARY_USER,
    READ_ONLY_ROOT,
    WITHOUT_SHELL,
    WITHOUT_TAR,
    Images,
    find_image,
    invalid_name,
    pull_error,
)
from tests.lib.harness.devcluster import Client, pod_manifest, state_of


@pytest.mark.bubblewrap
def test_an_image_without_a_shell(client: Client, name: str) -> None:
    """Neither the container nor an exec finds sh; python3 is there."""
    command = ["python3", "-c", "import time; time.sleep(600)"]
    client.create(pod_manifest(name, command, step={"image": WITHOUT_SHELL}))
    client.running(name)
    for missing in ("sh", "/bin/sh", "tar"):
        status = client.run(name, [missing, "-c", "true"]).status
        assert status is not None
        assert status["reason"] == "InternalError"
        found = "executable file not found in $PATH" if "/" not in missing else "no such file or directory"
        assert found in status["message"]
    looked = client.run(name, ["python3", "-c", "import os; print(os.path.lexists('/bin/sh'), os.access('/etc', 4))"])
    assert looked.channel(1) == b"False True\n"
    client.delete(name, gracePeriodSeconds=0)


@pytest.mark.bubblewrap
def test_an_image_without_a_shell_cannot_run_one(client: Client, name: str) -> None:
    """StartError with the runtime's words."""
    client.create(pod_manifest(name, ["sh", "-c", "true"], step={"image": WITHOUT_SHELL}))
    ended = state_of(client.finished(name), "step")["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert ended["message"].endswith('exec: "sh": executable file not found in $PATH')


@pytest.mark.bubblewrap
def test_an_image_without_tar(client: Client, name: str) -> None:
    """The shell says so, with 127; everything else works."""
    client.create(pod_manifest(name, ["sh", "-c", "tar c /tmp; echo $?; ls / >/dev/null"], step={"image": WITHOUT_TAR}))
    assert client.finished(name)["status"]["phase"] == "Succeeded"
    assert "127" in client.log(name).text.splitlines()


@pytest.mark.bubblewrap
def test_an_image_that_runs_as_a_user(client: Client, name: str) -> None:
    """Uid 1000, unless the pod says otherwise; the status says which."""
    client.create(pod_manifest(name, ["id", "-u"], step={"image": ORDINARY_USER}))
    pod = client.finished(name)
    assert client.log(name).text == "1000\n"
    assert pod["status"]["containerStatuses"][0]["user"]["linux"]["uid"] == 1000


@pytest.mark.bubblewrap
def test_an_image_with_a_read_only_root(client: Client, name: str) -> None:
    """Nothing can be written beside the volumes."""
    volumes = [{"name": "v", "emptyDir": {}}]
    step = {"image": READ_ONLY_ROOT, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    script = "touch /x 2>/dev/null || echo refused; touch /v/x && echo written"
    client.create(pod_manifest(name, ["sh", "-c", script], volumes=volumes, step=step))
    client.finished(name)
    assert client.log(name).text == "refused\nwritten\n"


def test_an_image_of_root_is_no_image_for_run_as_non_root(client: Client, name: str) -> None:
    """CreateContainerConfigError names the pod and the container."""
    created = client.create(pod_manifest(name, ["true"], step={"securityContext": {"runAsNonRoot": True}}))
    last = client.until(name, lambda pod: pod is not None and "message" in state_of(pod, "step").get("waiting", {}))[-1]
    assert last is not None
    waiting = state_of(last, "step")["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"] == (
        f'container has runAsNonRoot and image will run as root (pod: "{name}_ci({created["metadata"]["uid"]})", '
        "container: step)"
    )
    client.delete(name, gracePeriodSeconds=0)


def test_a_foreign_platform_fails_at_the_start(client: Client, name: str) -> None:
    """It is pulled, and its program cannot be run."""
    image = "registry.dev/foreign-platform@sha256:" + "0" * 64
    client.create(pod_manifest(name, ["/hello"], step={"image": image}))
    ended = state_of(client.finished(name), "step")["terminated"]
    assert ended["message"].endswith('unable to start container process: exec: "/hello": exec format error')


def test_a_name_that_no_entry_fits_is_the_hosts_tools(client: Client, name: str) -> None:
    """It is pulled first, and Events say so; the next pod finds it there."""
    image = f"example.org/team/runner:{name}"
    for number in range(2):
        client.create(pod_manifest(f"{name}-{number}", ["true"], step={"image": image}))
        client.finished(f"{name}-{number}")
    said = [
        [event["reason"] for event in client.cluster.events("ci") if event["involvedObject"]["name"] == f"{name}-{n}"]
        for n in range(2)
    ]
    assert said == [
        ["Scheduled", "Pulling", "Pulled", "Created", "Started"],
        ["Scheduled", "Pulled", "Created", "Started"],
    ]


@pytest.mark.bubblewrap
def test_an_image_with_programs_of_its_own(client: Client, name: str) -> None:
    """Its script is what its name finds, however it is called; what it took the place of is there to be called."""
    wrapper = '#!/bin/sh\necho mine\nfor real in /run/.senro-programs/*/seq; do exec "$real" "$@"; done\n'
    image = client.cluster.add_image(
        "own", programs={"seq": wrapper, "greet": "#!/bin/sh\necho hello\n"}, absent=["tar"]
    )
    command = ["sh", "-c", "seq 2; /usr/bin/seq 1; greet; command -v tar || echo gone"]
    client.create(pod_manifest(name, command, step={"image": image}))
    assert client.finished(name)["status"]["phase"] == "Succeeded"
    assert client.log(name).text == "mine\n1\n2\nmine\n1\nhello\ngone\n"
    assert image.startswith("registry.dev/own@sha256:")
    with pytest.raises(ValueError, match="must be lowercase"):
        client.cluster.add_image("Own")


def test_what_an_image_lacks_is_in_its_name() -> None:
    """Two images are one only where everything about them is the same, in whichever order it was given."""
    images = Images()
    known = [("own", programs, absent) for programs in ({}, {"a": "1"}, {"b": "1"}) for absent in ("", "a", "b", "ab")]
    names = [images.add(word, programs=programs, absent_tools=frozenset(absent)) for word, programs, absent in known]
    assert len(set(names)) == len(known)
    for name, (_, programs, absent) in zip(names, known, strict=True):
        assert (images.find(name).programs, images.find(name).absent_tools) == (programs, frozenset(absent))
    two = {"a": "1", "b": "2"}
    turned = dict(reversed(two.items()))
    again = [images.add("own", programs=programs, absent_tools=frozenset()) for programs in (two, turned)]
    assert again[0] == again[1]


def test_a_mapped_cluster_has_no_images_of_its_own(mapped: Client) -> None:
    """Its containers see this machine's programs: what would be without effect is refused, in a sentence."""
    with pytest.raises(RuntimeError, match=r"add_image needs bubblewrap, .* SENRO_DEVCLUSTER_MODE is mapped"):
        mapped.cluster.add_image("own", absent=["tar"])


def test_every_entry_says_something_of_its_own() -> None:
    """No entry hides one that comes after it, and each failure has its words."""
    for image in IMAGES:
        for pattern in image.names:
            assert find_image(pattern.replace("*", "x")) is image
    texts = [pull_error(image, image.names[0].replace("*", "x/y")) for image in IMAGES if image.pull_error]
    assert len(set(texts)) == len(texts)
    assert find_image(IMAGE).on_node
    assert find_image("anything/else").pull_error == ""


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        (IMAGE, True),
        ("busybox", True),
        ("busybox:1.36", True),
        ("localhost:5000/a/b_c/d-e.f:Tag_1@sha256:" + "a" * 64, True),
        ("EXAMPLE.org/team/runner", True),
        ("", False),
        ("UPPER", False),
        ("a//b", False),
        ("a:b:c", False),
        ("a@sha256:short", False),
        (" a", False),
    ],
)
def test_a_reference_is_read_as_a_registry_does(name: str, *, valid: bool) -> None:
    """The grammar of image references."""
    assert (invalid_name(name) == "") is valid
