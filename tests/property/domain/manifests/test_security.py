"""The embedded cluster's PodSecurity, compared with the tables of the standard."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from senro.devcluster.apiserver.pod_security import violations
from tests.lib.builders.pod_security import baseline, restricted

_PROFILES = st.sampled_from([{}, {"type": "RuntimeDefault"}, {"type": "Localhost"}, {"type": "Unconfined"}])
_USERS = st.sampled_from([0, 1000])
_SHARED: dict[str, st.SearchStrategy[Any]] = {
    "runAsNonRoot": st.booleans(),
    "runAsUser": _USERS,
    "seccompProfile": _PROFILES,
}
_NAMED: dict[str, st.SearchStrategy[Any]] = {"name": st.just("c")}
_NOTHING: dict[str, st.SearchStrategy[Any]] = {}
_WORDS = st.lists(st.sampled_from(["NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN", "ALL"]), unique=True)
_CONTAINER: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    _NAMED,
    optional={
        "securityContext": st.fixed_dictionaries(
            _NOTHING,
            optional={
                **_SHARED,
                "allowPrivilegeEscalation": st.booleans(),
                "privileged": st.booleans(),
                "capabilities": st.fixed_dictionaries(_NOTHING, optional={"add": _WORDS, "drop": _WORDS}),
            },
        ),
    },
)
_VOLUMES = st.sampled_from(["emptyDir", "secret", "hostPath", "persistentVolumeClaim"])
_PODS = st.fixed_dictionaries(
    {"containers": st.lists(_CONTAINER, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(_CONTAINER, max_size=1),
        "volumes": st.lists(_VOLUMES.map(lambda kind: {"name": "v", kind: {}}), max_size=2),
        "hostNetwork": st.booleans(),
        "hostPID": st.booleans(),
        "securityContext": st.fixed_dictionaries(_NOTHING, optional=_SHARED),
    },
)


@given(_PODS)
def test_a_level_refuses_what_the_standard_refuses(spec: dict[str, Any]) -> None:
    """Any pod is accepted by `baseline` and `restricted` exactly if the standard's tables accept it."""
    assert bool(violations(spec, "baseline")) == bool(baseline({"spec": spec}))
    assert bool(violations(spec, "restricted")) == bool(restricted({"spec": spec}))
    assert violations(spec, "privileged") == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"hostNetwork": True, "hostPID": True}, "host namespaces (hostNetwork=true, hostPID=true)"),
        ({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, 'hostPath volumes (volume "h")'),
        (
            {"containers": [{"name": "a", "securityContext": {"privileged": True}}]},
            'privileged (container "a" must not set securityContext.privileged=true)',
        ),
        (
            {
                "containers": [
                    {"name": name, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}} for name in ("a", "b")
                ]
            },
            (
                'non-default capabilities (containers "a", "b" must not include "SYS_ADMIN" in '
                "securityContext.capabilities.add)"
            ),
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
    ],
)
def test_a_refusal_names_rule_and_containers(spec: dict[str, Any], words: str) -> None:
    """The message has the rule and each container that violates it."""
    assert violations({"containers": [{"name": "c"}], **spec}, "baseline") == [words]
