"""Who asks, and what they may do: tokens, client certificates, and RBAC as Roles, ClusterRoles and bindings.

The decisions are made from the objects that are stored, so that a Role which is applied, patched or deleted counts at
once. What is in force from the beginning is `bootstrap`: the administrator's group, what every caller may ask about
itself, and the runner's role of the recordings (recordings/README.md).
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.rbac import SELF_RULES, Grant, Rule, cluster_grants, namespace_grants
from senro.devcluster.apiserver.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from senro.devcluster.apiserver.status import Refused, forbidden, unauthorized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from senro.devcluster.apiserver.http import Request
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

__all__ = ["RUNNER", "RUNNER_RULES", "Access", "Asked", "Identity", "Rule", "authorize", "authorize_exec_create"]

RUNNER_RULES = (
    Rule("", ("pods",), ("create", "get", "delete")),
    Rule("", ("pods/log",), ("get",)),
    Rule("", ("pods/exec",), ("create", "get")),
    Rule("", ("secrets",), ("create", "patch", "delete")),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update", "delete")),
)
"""What the identity of the recordings may do in its namespaces (recordings/README.md)."""

RUNNER = "senro-runner"
"""The runner's ServiceAccount, and the name of its Role and bindings."""

_AUTHENTICATED = "system:authenticated"
_ADMINISTRATORS = "system:masters"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and its groups, as the authenticators found them."""

    user: str
    groups: tuple[str, ...]

    @property
    def may_everything(self) -> bool:
        """Whether the administrators' group lets it pass without a rule."""
        return _ADMINISTRATORS in self.groups


@dataclass(frozen=True, slots=True)
class Asked:
    """What a caller wants to do; `resource` may be `pods/exec`, `namespace` "" is the whole cluster."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))


class Access:
    """The cluster's tokens, certificates and rules."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        self.home = "ci" if "ci" in namespaces else namespaces[0]
        """The namespace of the runner's ServiceAccount."""
        self.runner_token = secrets.token_urlsafe(32)
        self.admin_token = secrets.token_urlsafe(32)
        self._namespaces = tuple(namespaces)
        self._tokens: dict[str, Identity] = {}
        self.add_token(self.runner_token, service_account(self.home, RUNNER))
        self.add_token(self.admin_token, Identity("kubernetes-admin", (_ADMINISTRATORS, _AUTHENTICATED)))
        self._storage: Storage | None = None

    def add_token(self, token: str, identity: Identity) -> None:
        """Let a bearer of this token be that user."""
        self._tokens[token] = identity

    def bootstrap(self, storage: Storage) -> None:
        """Store the runner's role, and decide from what is stored from now on."""
        self._storage = storage
        nodes = [Rule("", ("nodes",), ("get", "list")).document()]
        storage.create(CLUSTER_ROLES, {"metadata": {"name": f"{RUNNER}-nodes"}, "rules": nodes})
        subject = {"kind": "ServiceAccount", "name": RUNNER, "namespace": self.home}
        storage.create(
            CLUSTER_ROLE_BINDINGS,
            {
                "metadata": {"name": f"{RUNNER}-nodes"},
                "subjects": [subject],
                "roleRef": {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": f"{RUNNER}-nodes"},
            },
        )
        for namespace in self._namespaces:
            meta = {"name": RUNNER, "namespace": namespace}
            storage.create(ROLES, {"metadata": meta, "rules": [rule.document() for rule in RUNNER_RULES]})
            storage.create(
                ROLE_BINDINGS,
                {
                    "metadata": meta,
                    "subjects": [subject],
                    "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": RUNNER},
                },
            )

    def set_runner_rules(self, rules: Sequence[Rule]) -> None:
        """Give the runner's Role other rules in its namespaces, at once."""
        if self._storage is None:
            raise RuntimeError("the cluster has not been started")

        def change(role: Object) -> None:
            role["rules"] = [rule.document() for rule in rules]

        for namespace in self._namespaces:
            self._storage.update(ROLES, namespace, RUNNER, change)

    def authenticate(self, request: Request) -> Identity:
        """Find out who asks: a client certificate first, then a bearer token; neither is the anonymous user.

        401 for a token that nobody has.
        """
        if request.certificate is not None:
            user, groups = request.certificate
            return Identity(user, (*groups, _AUTHENTICATED))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        given = token.strip().encode()
        for known, identity in self._tokens.items():
            if hmac.compare_digest(given, known.encode()):
                return identity
        raise unauthorized()

    def grants(self, identity: Identity, namespace: str) -> list[Grant]:
        """Every rule that holds for this caller in a namespace, or for the whole cluster where it is ""."""
        if self._storage is None:
            return []
        found = cluster_grants(self._storage, identity.user, identity.groups)
        if _AUTHENTICATED in identity.groups:
            found += [Grant(rule, 'RBAC: allowed by ClusterRoleBinding "system:basic-user"') for rule in SELF_RULES]
        if namespace:
            found += namespace_grants(self._storage, identity.user, identity.groups, namespace)
        return found

    def why(self, identity: Identity, asked: Asked) -> str | None:
        """The reason that a review gives for a yes, or None where it is no."""
        if identity.may_everything:
            return ""
        for grant in self.grants(identity, asked.namespace):
            if grant.rule.allows(asked.verb, asked.group, asked.resource, asked.name):
                return grant.reason
        return None

    def may(self, identity: Identity, asked: Asked) -> bool:
        """Whether any rule allows it."""
        return self.why(identity, asked) is not None


def service_account(namespace: str, name: str) -> Identity:
    """A ServiceAccount as its token authenticates."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", _AUTHENTICATED)
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups)


def authorize(
    access: Access,
    identity: Identity,
    verb: str,
    resource: Resource,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> None:
    """Let it pass, or answer 403 in the apiserver's words (recordings connection, exec-forbidden)."""
    full = f"{resource.plural}/{subresource}" if subresource else resource.plural
    if access.may(identity, Asked(verb, resource.group, full, namespace, name)):
        return
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    raise forbidden(
        resource,
        name,
        f'User "{identity.user}" cannot {verb} resource "{full}" in API group "{resource.group}" {where}',
    )


def authorize_exec_create(access: Access, identity: Identity, resource: Resource, *, namespace: str, name: str) -> None:
    """The second check of a WebSocket exec, `create`; its refusal names nothing (recording exec-forbidden)."""
    if not access.may(identity, Asked("create", resource.group, f"{resource.plural}/exec", namespace, name)):
        refusal = forbidden(resource, name, "")
        raise Refused(refusal.status)
