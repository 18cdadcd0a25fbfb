"""Who asks, and what they may do: bearer tokens, and rules as RBAC writes them."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.status import Refused, forbidden, unauthorized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from senro.devcluster.apiserver.status import Resource


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of one group; `*` is every verb or every resource."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]

    def allows(self, verb: str, group: str, resource: str) -> bool:
        """Whether this rule alone lets that happen; `resource` may be `pods/exec`."""
        return (
            (self.group in {group, "*"})
            and ("*" in self.resources or resource in self.resources)
            and ("*" in self.verbs or verb in self.verbs)
        )


RUNNER_RULES = (
    Rule("", ("pods",), ("create", "get", "delete")),
    Rule("", ("pods/log",), ("get",)),
    Rule("", ("pods/exec",), ("create", "get")),
    Rule("", ("secrets",), ("create", "patch", "delete")),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update", "delete")),
)
"""What the identity of the recordings may do in its namespaces (recordings/README.md)."""

_CLUSTER_RULES = (
    Rule("", ("nodes",), ("get", "list")),
    Rule("authorization.k8s.io", ("selfsubjectaccessreviews",), ("create",)),
)
_EVERYTHING = (Rule("*", ("*",), ("*",)),)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user, and the rules that hold for it: everywhere, and in each namespace."""

    user: str
    everywhere: tuple[Rule, ...] = ()
    namespaced: dict[str, tuple[Rule, ...]] = field(default_factory=dict)

    def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """Whether any rule allows it."""
        rules = (*self.everywhere, *self.namespaced.get(namespace, ()))
        return any(rule.allows(verb, group, resource) for rule in rules)


ANONYMOUS = Identity("system:anonymous")


class Access:
    """The cluster's tokens and what their owners may do."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        home = "ci" if "ci" in namespaces else namespaces[0]
        self.runner_token = secrets.token_urlsafe(32)
        self.admin_token = secrets.token_urlsafe(32)
        self._namespaces = tuple(namespaces)
        self._runner_user = f"system:serviceaccount:{home}:senro-runner"
        self._admin = Identity("kubernetes-admin", _EVERYTHING)
        self.set_runner_rules(RUNNER_RULES)

    def set_runner_rules(self, rules: Sequence[Rule]) -> None:
        """Give the runner's ServiceAccount other rules in its namespaces, at once."""
        self._runner = Identity(
            self._runner_user, _CLUSTER_RULES, {namespace: tuple(rules) for namespace in self._namespaces}
        )

    def authenticate(self, headers: dict[str, str]) -> Identity:
        """Find out who asks; 401 for a token that nobody has, and no token is the anonymous user."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return ANONYMOUS
        given = token.strip().encode()
        if hmac.compare_digest(given, self.runner_token.encode()):
            return self._runner
        if hmac.compare_digest(given, self.admin_token.encode()):
            return self._admin
        raise unauthorized()


def authorize(
    identity: Identity, verb: str, resource: Resource, *, namespace: str = "", name: str = "", subresource: str = ""
) -> None:
    """Let it pass, or answer 403 in the apiserver's words (recordings connection, exec-forbidden)."""
    full = f"{resource.plural}/{subresource}" if subresource else resource.plural
    if identity.may(verb, resource.group, full, namespace):
        return
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    raise forbidden(
        resource,
        name,
        f'User "{identity.user}" cannot {verb} resource "{full}" in API group "{resource.group}" {where}',
    )


def authorize_exec_create(identity: Identity, resource: Resource, *, namespace: str, name: str) -> None:
    """The second check of a WebSocket exec, `create`; its refusal names nothing (recording exec-forbidden)."""
    if not identity.may("create", resource.group, f"{resource.plural}/exec", namespace):
        refusal = forbidden(resource, name, "")
        raise Refused(refusal.status)
