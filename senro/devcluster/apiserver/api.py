"""Every request of the API: who asks, for what, may it, and what the answer is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.access import ANONYMOUS, authorize, authorize_exec_create
from senro.devcluster.apiserver.discovery import VERSION, discover
from senro.devcluster.apiserver.exec import open_exec
from senro.devcluster.apiserver.http import Response, json_response, text_response
from senro.devcluster.apiserver.logs import read_log
from senro.devcluster.apiserver.paths import parse_target, verb_of
from senro.devcluster.apiserver.request_decoding import decode_body
from senro.devcluster.apiserver.resources import REVIEWS
from senro.devcluster.apiserver.reviews import review
from senro.devcluster.apiserver.status import PODS, Refused, bad_request, failure, method_not_allowed
from senro.devcluster.apiserver.table import table, wants_table
from senro.devcluster.apiserver.watching import list_or_watch
from senro.devcluster.apiserver.writing import Writer

if TYPE_CHECKING:
    from senro.devcluster.apiserver.access import Access, Identity
    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.apiserver.paths import Target
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.clock import Clock
    from senro.devcluster.faults import Faults
    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_LOG = logging.getLogger("senro.devcluster")
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})


class Api:
    """The apiserver without its connections."""

    def __init__(
        self,
        *,
        storage: Storage,
        kubelet: Kubelet,
        access: Access,
        clock: Clock,
        faults: Faults,
        toleration_seconds: int = 300,
    ) -> None:
        self._storage = storage
        self._kubelet = kubelet
        self._access = access
        self._clock = clock
        self._faults = faults
        self.writer = Writer(
            storage=storage,
            kubelet=kubelet,
            clock=clock,
            faults=faults,
            authorize=self._authorize_write,
            toleration_seconds=toleration_seconds,
        )
        storage.delete_pod = self._collect_pod

    @property
    def created_pods(self) -> list[Object]:
        """The manifest of every pod that was created, as it was sent."""
        return self.writer.created_pods

    async def handle(self, request: Request) -> Answer:
        """Answer one request; a refusal is an answer like any other."""
        fault = self._faults.answer_for(request)
        if fault is not None:
            return fault
        try:
            answer = self._route(request)
        except Refused as refusal:
            answer = json_response(refusal.code, refusal.status, refusal.headers)
        except Exception:  # noqa: BLE001 - one broken request must not end the cluster; it is logged whole
            # As a real one recovers from a panic: one request fails, and the log says why.
            _LOG.exception("%s %s failed", request.method, request.path)
            words = "Internal error occurred: see the cluster's log"
            return json_response(500, failure(500, "InternalError", words))
        return self._faults.instead_of(request, answer)

    def _route(self, request: Request) -> Answer:
        identity = self._access.authenticate(request)
        plain = self._plain(request)
        if plain is not None:
            return plain
        target = parse_target(request.path)
        if target is None:
            raise method_not_allowed()
        if target.subresource:
            return self._subresource(request, identity, target)
        verb = verb_of(request, target)
        authorize(self._access, identity, verb, target.resource, namespace=target.namespace, name=target.name)
        if request.parameters("dryRun") and verb != "create":
            raise bad_request("the embedded cluster serves dryRun for creates only")
        if target.resource in REVIEWS:
            if verb != "create":
                raise method_not_allowed()
            return json_response(201, review(decode_body(request, target.resource), self._access, identity))
        handler = {
            "create": self.writer.create,
            "get": self._get,
            "list": self._list,
            "watch": self._list,
            "update": self.writer.update,
            "patch": self.writer.patch,
            "delete": self.writer.delete,
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

    def _get(self, request: Request, _identity: Identity, target: Target) -> Answer:
        document = self._storage.get(target.resource, target.namespace, target.name)
        if wants_table(request):
            version = document["metadata"]["resourceVersion"]
            return json_response(200, table(request, target.resource, [document], version))
        return json_response(200, document)

    def _list(self, request: Request, _identity: Identity, target: Target) -> Answer:
        return list_or_watch(request, target.resource, target.namespace, self._storage)

    def _subresource(self, request: Request, identity: Identity, target: Target) -> Answer:
        if target.resource != PODS or target.subresource not in {"log", "exec"}:
            return text_response(404, "404 page not found\n")
        verb = {"GET": "get", "POST": "create"}.get(request.method, request.method.lower())
        where = {"namespace": target.namespace, "name": target.name}
        authorize(self._access, identity, verb, PODS, subresource=target.subresource, **where)
        if target.subresource == "log":
            if request.method != "GET":
                raise method_not_allowed()
            pod = self._storage.get(PODS, target.namespace, target.name)
            return read_log(request, pod, self._kubelet, self._clock, self._faults)
        if request.method != "GET":
            return Response(405, (("connection", "close"),), close=True)
        pod = self._storage.get(PODS, target.namespace, target.name)
        if identity != ANONYMOUS:
            authorize_exec_create(self._access, identity, PODS, **where)
        return open_exec(request, pod, self._kubelet, self._faults)

    def _authorize_write(self, identity: Identity, verb: str, resource: Resource, namespace: str) -> None:
        authorize(self._access, identity, verb, resource, namespace=namespace)

    def _collect_pod(self, pod: Object) -> None:
        grace = int(pod["spec"].get("terminationGracePeriodSeconds", 30))
        if "deletionTimestamp" not in pod["metadata"]:
            self._kubelet.delete(pod["metadata"]["namespace"], pod["metadata"]["name"], max(1, grace))
