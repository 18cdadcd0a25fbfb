"""Every request of the API: who asks, for what, may it, and what the answer is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.access import ANONYMOUS, authorize, authorize_exec_create
from senro.devcluster.apiserver.bodies import DeleteOptions, decode_body, decode_patch
from senro.devcluster.apiserver.changes import checked_secret, refuse_immutable, refuse_pod_change
from senro.devcluster.apiserver.defaults import default_pod, quality_of_service
from senro.devcluster.apiserver.discovery import VERSION, discover
from senro.devcluster.apiserver.exec import open_exec
from senro.devcluster.apiserver.http import Response, json_response, text_response
from senro.devcluster.apiserver.logs import read_log
from senro.devcluster.apiserver.patch import merge_patch, patch_type
from senro.devcluster.apiserver.paths import parse_target, verb_of
from senro.devcluster.apiserver.schema import ACCESS_REVIEW, LEASE, POD, SECRET
from senro.devcluster.apiserver.status import (
    ACCESS_REVIEWS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Cause,
    Refused,
    bad_request,
    conflict,
    failure,
    forbidden,
    invalid,
    method_not_allowed,
    success,
)
from senro.devcluster.apiserver.validation import check_lease, check_pod
from senro.devcluster.apiserver.watching import list_or_watch

if TYPE_CHECKING:
    from senro.devcluster.apiserver.access import Access, Identity
    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.apiserver.paths import Target
    from senro.devcluster.clock import Clock
    from senro.devcluster.faults import Faults
    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_SCHEMAS = {PODS: POD, SECRETS: SECRET, LEASES: LEASE}
_LOG = logging.getLogger("senro.devcluster")
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


class Api:
    """The apiserver without its connections."""

    def __init__(self, *, storage: Storage, kubelet: Kubelet, access: Access, clock: Clock, faults: Faults) -> None:
        self._storage = storage
        self._kubelet = kubelet
        self._access = access
        self._clock = clock
        self._faults = faults
        self.created_pods: list[Object] = []
        """The manifest of every pod that was created, as it was sent."""

    async def handle(self, request: Request) -> Answer:
        """Answer one request; a refusal is an answer like any other."""
        fault = self._faults.answer_for(request)
        if fault is not None:
            return fault
        try:
            return self._route(request)
        except Refused as refusal:
            return json_response(refusal.code, refusal.status, refusal.headers)
        except Exception:  # noqa: BLE001 - one broken request must not end the cluster; it is logged whole
            # As a real one recovers from a panic: one request fails, and the log says why.
            _LOG.exception("%s %s failed", request.method, request.path)
            return json_response(500, failure(500, "InternalError", "Internal error occurred: see the cluster's log"))

    def _route(self, request: Request) -> Answer:
        identity = self._access.authenticate(request.headers)
        plain = self._plain(request)
        if plain is not None:
            return plain
        target = parse_target(request.path)
        if target is None:
            raise method_not_allowed()
        if target.subresource:
            return self._subresource(request, identity, target)
        verb = verb_of(request, target)
        authorize(identity, verb, target.resource, namespace=target.namespace, name=target.name)
        if target.resource == ACCESS_REVIEWS:
            return self._review(request, identity)
        if target.resource.namespaced and target.namespace and verb == "create":
            self._storage.get(NAMESPACES, "", target.namespace)
        handler = {
            "create": self._create,
            "get": self._get,
            "list": self._list,
            "watch": self._list,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
        }.get(verb)
        if handler is None:
            raise method_not_allowed()
        return handler(request, identity, target)

    def _plain(self, request: Request) -> Answer | None:
        """What is no resource: the version, health, discovery; None for a resource."""
        if request.path in {"/version", "/version/"}:
            return json_response(200, VERSION)
        if request.path in _HEALTH:
            return text_response(200, "ok")
        if parse_target(request.path) is not None:
            return None
        document = discover(request.path)
        return json_response(200, document) if document is not None else text_response(404, "404 page not found\n")

    def _get(self, _request: Request, _identity: Identity, target: Target) -> Answer:
        return json_response(200, self._storage.get(target.resource, target.namespace, target.name))

    def _list(self, request: Request, _identity: Identity, target: Target) -> Answer:
        return list_or_watch(request, target.resource, target.namespace, self._storage)

    def _create(self, request: Request, _identity: Identity, target: Target) -> Answer:
        resource = target.resource
        if resource not in _SCHEMAS:
            raise method_not_allowed()
        document = decode_body(request, resource, _SCHEMAS[resource])
        sent = document
        document = {**document, "metadata": {**(document.get("metadata") or {})}}
        meta = document["metadata"]
        if meta.setdefault("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"][:58] + self._storage.suffix()
        if resource == PODS:
            stored = self._create_pod(document, sent)
            if self._faults.loses_create_answer(stored):
                return Response(0, (), drop=True)
        elif resource == SECRETS:
            stored = self._storage.create(SECRETS, checked_secret(document))
        else:
            check_lease(LEASES, document)
            stored = self._storage.create(LEASES, document)
        return json_response(201, stored)

    def _create_pod(self, document: Object, sent: Object) -> Object:
        check_pod(PODS, document)
        spec = document["spec"]
        name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
        account = spec.get("serviceAccountName") or "default"
        if account != "default":
            raise forbidden(
                PODS,
                name,
                f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found',
            )
        if spec.get("restartPolicy") != "Never":
            # Said plainly, rather than run once and called something else.
            raise forbidden(PODS, name, "the embedded cluster runs pods of restartPolicy Never only")
        filled = default_pod(spec)
        stored = self._storage.create(
            PODS,
            {
                "metadata": document["metadata"],
                "spec": filled,
                "status": {"phase": "Pending", "qosClass": quality_of_service(filled)},
            },
        )
        self.created_pods.append(sent)
        self._kubelet.add(stored)
        return stored

    def _update(self, request: Request, identity: Identity, target: Target) -> Answer:
        if target.resource != LEASES:
            raise method_not_allowed()
        lease = decode_body(request, LEASES, LEASE)
        meta = lease.get("metadata") or {}
        lease = {**lease, "metadata": {**meta, "namespace": target.namespace}}
        check_lease(LEASES, lease)
        if meta.get("name") != target.name:
            raise bad_request(
                f"the name of the object ({meta.get('name', '')}) does not match the name on the URL ({target.name})"
            )
        if self._storage.find(LEASES, target.namespace, target.name) is None:
            # A Lease may be created by its update (facts/api-rules.md section 6).
            authorize(identity, "create", LEASES, namespace=target.namespace)
            return json_response(201, self._storage.create(LEASES, lease))
        version = str(meta.get("resourceVersion") or "")
        if not version:
            cause = Cause.invalid("metadata.resourceVersion", "0", "must be specified for an update")
            raise invalid(LEASES.plural, target.name, [cause], LEASES.group)

        def change(current: Object) -> None:
            current["spec"] = lease.get("spec") or {}
            for field in ("labels", "annotations", "ownerReferences"):
                if field in meta:
                    current["metadata"][field] = meta[field]

        return json_response(200, self._storage.update(LEASES, target.namespace, target.name, change, version=version))

    def _patch(self, request: Request, _identity: Identity, target: Target) -> Answer:
        patch_type(request)
        if target.resource not in {SECRETS, LEASES, PODS}:
            raise method_not_allowed()
        patch = decode_patch(request, target.resource)
        current = self._storage.get(target.resource, target.namespace, target.name)
        wanted = merge_patch(current, patch)
        version = str((patch.get("metadata") or {}).get("resourceVersion") or "")
        if target.resource == SECRETS:
            wanted = checked_secret(wanted)
            refuse_immutable(current, wanted)
        elif target.resource == LEASES:
            check_lease(LEASES, wanted)
        else:
            refuse_pod_change(current, wanted)

        def change(document: Object) -> None:
            kept = document["metadata"]
            for field in ("labels", "annotations", "ownerReferences", "finalizers"):
                value = wanted["metadata"].get(field)
                if value:
                    kept[field] = value
                else:
                    kept.pop(field, None)
            for field, value in wanted.items():
                if field not in {"metadata", "status"}:
                    document[field] = value

        stored = self._storage.update(target.resource, target.namespace, target.name, change, version=version)
        # An owner that is gone already takes its dependents with it.
        self._storage.collect(target.namespace)
        return json_response(200, stored)

    def _delete(self, request: Request, _identity: Identity, target: Target) -> Answer:
        resource = target.resource
        if resource in {NODES, NAMESPACES}:
            raise method_not_allowed()
        options = DeleteOptions(request, resource)
        current = self._storage.get(resource, target.namespace, target.name)
        meta = current["metadata"]
        if options.uid and options.uid != meta["uid"]:
            raise conflict(
                resource,
                target.name,
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
                "The object might have been deleted and then recreated",
            )
        if options.resource_version and options.resource_version != meta["resourceVersion"]:
            raise conflict(
                resource,
                target.name,
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
            )
        if resource == PODS:
            grace = options.grace_seconds
            if grace is None:
                grace = int(current["spec"].get("terminationGracePeriodSeconds", 30))
            grace = 1 if grace < 0 else grace
            return json_response(200, self._kubelet.delete(target.namespace, target.name, grace))
        self._storage.remove(resource, target.namespace, target.name)
        return json_response(200, success(resource, target.name, meta["uid"]))

    def _review(self, request: Request, identity: Identity) -> Answer:
        review = decode_body(request, ACCESS_REVIEWS, ACCESS_REVIEW)
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        resource = asked.get("resource", "")
        if asked.get("subresource"):
            resource += f"/{asked['subresource']}"
        allowed = identity.may(asked.get("verb", ""), asked.get("group", ""), resource, asked.get("namespace", ""))
        status: Object = {"allowed": allowed}
        if allowed:
            status["reason"] = f"RBAC: allowed for {identity.user}"
        return json_response(
            201,
            {
                "kind": ACCESS_REVIEWS.kind,
                "apiVersion": ACCESS_REVIEWS.api_version,
                "metadata": {},
                "spec": review.get("spec") or {},
                "status": status,
            },
        )

    def _subresource(self, request: Request, identity: Identity, target: Target) -> Answer:
        if target.resource != PODS or target.subresource not in {"log", "exec", "eviction"}:
            return text_response(404, "404 page not found\n")
        verb = {"GET": "get", "POST": "create"}.get(request.method, request.method.lower())
        where = {"namespace": target.namespace, "name": target.name}
        authorize(identity, verb, PODS, subresource=target.subresource, **where)
        if target.subresource == "eviction":
            return self._evict(request, target)
        if target.subresource == "log":
            if request.method != "GET":
                raise method_not_allowed()
            pod = self._storage.get(PODS, target.namespace, target.name)
            return read_log(request, pod, self._kubelet, self._clock)
        if request.method != "GET":
            return Response(405, (("connection", "close"),), close=True)
        pod = self._storage.get(PODS, target.namespace, target.name)
        if identity is not ANONYMOUS:
            authorize_exec_create(identity, PODS, **where)
        return open_exec(request, pod, self._kubelet, self._faults)

    def _evict(self, request: Request, target: Target) -> Answer:
        if request.method != "POST":
            raise method_not_allowed()
        self._storage.get(PODS, target.namespace, target.name)
        body = decode_patch(request, PODS) if request.body else {}
        grace = (body.get("deleteOptions") or {}).get("gracePeriodSeconds")
        self._kubelet.evict(
            target.namespace,
            target.name,
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
            grace_seconds=grace,
        )
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return json_response(201, status)
