"""RBAC: rules, who is bound to them, and the words in which a review tells why (recording connection)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of one group; `*` is every group, verb or resource. `names` empty is every object."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def allows(self, verb: str, group: str, resource: str, name: str = "") -> bool:
        """Whether this rule alone lets that happen; `resource` may be `pods/exec`, which `*/exec` covers too."""
        subresource = resource.partition("/")[2]
        covered = {"*", resource, f"*/{subresource}" if subresource else resource}
        return (
            self.group in {group, "*"}
            and bool(covered & set(self.resources))
            and ("*" in self.verbs or verb in self.verbs)
            and (not self.names or name in self.names)
        )

    def document(self) -> Object:
        """The rule as a Role holds it."""
        document: Object = {
            "verbs": list(self.verbs),
            "apiGroups": [self.group],
            "resources": list(self.resources),
        }
        return {**document, "resourceNames": list(self.names)} if self.names else document


SELF_RULES = (Rule("authorization.k8s.io", ("selfsubjectaccessreviews",), ("create",)),)
"""What every authenticated caller may ask about itself (system:basic-user)."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A rule that holds for a caller, and the sentence that a review gives for it."""

    rule: Rule
    reason: str


def cluster_grants(storage: Storage, user: str, groups: Iterable[str]) -> list[Grant]:
    """What the bindings of the whole cluster give this caller."""
    held = set(groups)
    bindings = storage.select(CLUSTER_ROLE_BINDINGS)
    return [grant for binding in bindings for grant in _grants_of(storage, binding, user, held, "")]


def namespace_grants(storage: Storage, user: str, groups: Iterable[str], namespace: str) -> list[Grant]:
    """What the bindings of one namespace give this caller there."""
    held = set(groups)
    bindings = storage.select(ROLE_BINDINGS, namespace)
    return [grant for binding in bindings for grant in _grants_of(storage, binding, user, held, namespace)]


def _grants_of(storage: Storage, binding: Object, user: str, groups: set[str], namespace: str) -> list[Grant]:
    reference, meta = binding.get("roleRef") or {}, binding["metadata"]
    subject = next((text for item in binding.get("subjects") or [] if (text := _subject_name(item, user, groups))), "")
    if not subject:
        return []
    kind, name = reference.get("kind", ""), reference.get("name", "")
    role = storage.find(CLUSTER_ROLES, "", name) if kind == "ClusterRole" else storage.find(ROLES, namespace, name)
    bound = f'RoleBinding "{meta["name"]}/{namespace}"' if namespace else f'ClusterRoleBinding "{meta["name"]}"'
    reason = f'RBAC: allowed by {bound} of {kind} "{name}" to {subject}'
    return [Grant(rule, reason) for document in (role or {}).get("rules") or [] for rule in _rules(document)]


def _subject_name(subject: Object, user: str, groups: set[str]) -> str:
    """The subject as a reason names it, where it is this caller; else ""."""
    kind, name, namespace = subject.get("kind"), subject.get("name", ""), subject.get("namespace", "")
    if kind == "ServiceAccount" and user == f"system:serviceaccount:{namespace}:{name}":
        return f'ServiceAccount "{name}/{namespace}"'
    if (kind == "User" and name == user) or (kind == "Group" and name in groups):
        return f'{kind} "{name}"'
    return ""


def _rules(document: Object) -> list[Rule]:
    resources, verbs = tuple(document.get("resources") or ()), tuple(document.get("verbs") or ())
    names = tuple(document.get("resourceNames") or ())
    return [Rule(group, resources, verbs, names) for group in document.get("apiGroups") or ()]
