from __future__ import annotations

import pytest

from senro.domain.kube import api_paths


def test_targets() -> None:
    """Each target is the recorded path, with the query that senro adds."""
    assert api_paths.VERSION == "/version"
    assert api_paths.pods("ci") == "/api/v1/namespaces/ci/pods?fieldValidation=Strict"
    assert api_paths.pod("ci", "a") == "/api/v1/namespaces/ci/pods/a"
    assert api_paths.secrets("ci") == "/api/v1/namespaces/ci/secrets?fieldValidation=Strict"
    assert api_paths.secret("ci", "a") == "/api/v1/namespaces/ci/secrets/a"
    assert api_paths.secret("ci", "a", write=True) == "/api/v1/namespaces/ci/secrets/a?fieldValidation=Strict"
    leases = "/apis/coordination.k8s.io/v1/namespaces/ci/leases"
    assert api_paths.leases("ci") == f"{leases}?fieldValidation=Strict"
    assert api_paths.lease("ci", "a") == f"{leases}/a"
    assert api_paths.lease("ci", "a", write=True) == f"{leases}/a?fieldValidation=Strict"


def test_logs() -> None:
    """A log is requested with timestamps, and with the given parameters."""
    assert api_paths.log("ci", "a", "step", follow=False) == (
        "/api/v1/namespaces/ci/pods/a/log?container=step&timestamps=true"
    )
    assert api_paths.log(
        "ci", "a", "step", follow=True, since="2026-11-29T23:13:08Z", tail_lines=5, limit_bytes=10
    ) == (
        "/api/v1/namespaces/ci/pods/a/log?container=step&timestamps=true&follow=true"
        "&sinceTime=2026-11-29T23%3A13%3A08Z&tailLines=5&limitBytes=10"
    )


def test_exec() -> None:
    """The command is in the query, in order and escaped; false parameters are left out."""
    assert api_paths.exec_("ci", "a", "step", ["sh", "-c", "echo $1 + 'ü'&\n"], stdin=True) == (
        "/api/v1/namespaces/ci/pods/a/exec?container=step&command=sh&command=-c"
        "&command=echo%20%241%20%2B%20%27%C3%BC%27%26%0A&stdin=true&stdout=true&stderr=true"
    )
    assert api_paths.exec_("ci", "a", "step", [], stdin=False) == (
        "/api/v1/namespaces/ci/pods/a/exec?container=step&stdout=true&stderr=true"
    )


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_are_refused(name: str) -> None:
    """An empty name would address the collection, and dots another resource."""
    with pytest.raises(ValueError, match="no name on an apiserver"):
        api_paths.pod("ci", name)
    with pytest.raises(ValueError, match="no name on an apiserver"):
        api_paths.pod(name, "a")


def test_slashes_are_escaped() -> None:
    """A name cannot add a segment to the path."""
    assert api_paths.pod("ci", "a/log?x#y") == "/api/v1/namespaces/ci/pods/a%2Flog%3Fx%23y"
