"""Creating, replacing, patching and deleting objects of any resource; storage and admission do the rest."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from senro.devcluster.apiserver.admission import admit_pod, check_namespace, priority_of
from senro.devcluster.apiserver.defaults import default_pod, quality_of_service
from senro.devcluster.apiserver.http import Response, json_response
from senro.devcluster.apiserver.patch import check_patch_type, merge_patch
from senro.devcluster.apiserver.request_decoding import (
    DeleteOptions,
    checked_fields,
    decode_body,
    decode_document,
    is_dry_run,
)
from senro.devcluster.apiserver.resources import SERVICE_ACCOUNTS
from senro.devcluster.apiserver.status import (
    NAMESPACES,
    NODES,
    PODS,
    Cause,
    Refused,
    bad_request,
    conflict,
    invalid,
    method_not_allowed,
    success,
)
from senro.devcluster.apiserver.strategies import strategy_of
from senro.devcluster.clock import now_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from senro.devcluster.apiserver.access import Identity
    from senro.devcluster.apiserver.http import Answer, Request
    from senro.devcluster.apiserver.paths import Target
    from senro.devcluster.apiserver.status import Resource
    from senro.devcluster.clock import Clock
    from senro.devcluster.faults import Faults
    from senro.devcluster.kubelet.kubelet import Kubelet
    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

_FREE_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
_HEAD = frozenset({"metadata", "kind", "apiVersion"})
_NAME_TRIES = 8


class Writer:
    """The write half of the API. `authorize` is asked for what a request turns out to need beside its own verb."""

    def __init__(
        self,
        *,
        storage: Storage,
        kubelet: Kubelet,
        clock: Clock,
        faults: Faults,
        authorize: Callable[[Identity, str, Resource, str], None],
        toleration_seconds: int,
    ) -> None:
        self._storage = storage
        self._kubelet = kubelet
        self._clock = clock
        self._faults = faults
        self._authorize = authorize
        self._toleration_seconds = toleration_seconds
        self.created_pods: list[Object] = []
        """The manifest of every pod that was created, as it was sent."""

    # --- create ------------------------------------------------------------------------------------------------

    def create(self, request: Request, _identity: Identity, target: Target) -> Answer:
        """POST to a collection: 201 with the object."""
        warnings: list[str] = []
        sent = decode_body(request, target.resource, warnings)
        dry_run = is_dry_run(request.parameters("dryRun"))
        stored = self._create(target.resource, target.namespace, sent, warnings, dry_run=dry_run)
        if target.resource == PODS and not dry_run and self._faults.loses_create_answer(stored):
            return Response(0, (), drop=True)
        return json_response(201, stored, (), warnings)

    def _create(
        self,
        resource: Resource,
        namespace: str,
        sent: Object,
        warnings: list[str],
        *,
        dry_run: bool,
    ) -> Object:
        document: Object = {**sent, "metadata": {**(sent.get("metadata") or {})}}
        meta = document["metadata"]
        if resource.namespaced:
            if meta.setdefault("namespace", namespace) != namespace:
                words = "the namespace of the provided object does not match the namespace sent on the request"
                raise bad_request(words)
        else:
            meta.pop("namespace", None)
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        generated = str(meta.get("generateName") or "") if not meta.get("name") else ""
        for attempt in range(_NAME_TRIES):
            if generated:
                meta["name"] = generated[:58] + self._storage.suffix()
            try:
                stored = self._admitted(resource, namespace, document, sent, warnings, dry_run=dry_run)
            except Refused as refusal:
                if not generated or refusal.status.get("reason") != "AlreadyExists" or attempt == _NAME_TRIES - 1:
                    raise
            else:
                return stored
        raise AssertionError("unreachable")

    def _admitted(
        self,
        resource: Resource,
        namespace: str,
        document: Object,
        sent: Object,
        warnings: list[str],
        *,
        dry_run: bool,
    ) -> Object:
        name = document["metadata"].get("name", "")
        home = check_namespace(self._storage, resource, namespace, name) if resource.namespaced else None
        prepared = strategy_of(resource).create(document)
        if resource == PODS and home is not None:
            return self._create_pod(home, prepared, sent, warnings, dry_run=dry_run)
        stored = self._storage.create(resource, prepared, dry_run=dry_run)
        if resource == NAMESPACES and not dry_run:
            self.furnish(stored["metadata"]["name"])
        if not dry_run:
            self._collect(stored)
        return stored

    def furnish(self, namespace: str) -> None:
        """Give a new namespace what its controllers give it: the default ServiceAccount."""
        self._storage.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})

    def _create_pod(
        self, namespace: Object, document: Object, sent: Object, warnings: list[str], *, dry_run: bool
    ) -> Object:
        name = document["metadata"]["name"]
        spec = default_pod(document["spec"], toleration_seconds=self._toleration_seconds)
        spec["priority"], spec["preemptionPolicy"] = priority_of(self._storage, name, spec)
        warnings += admit_pod(self._storage, namespace, name, spec)
        status = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        pod = {"metadata": document["metadata"], "spec": spec, "status": status}
        stored = self._storage.create(PODS, pod, dry_run=dry_run)
        if not dry_run:
            self.created_pods.append(sent)
            self._kubelet.add(stored)
            self._collect(stored)
        return stored

    def _collect(self, stored: Object) -> None:
        """Do what the garbage collector does behind a write: remove the object if none of its owners exists."""
        if stored["metadata"].get("ownerReferences"):
            self._storage.collect(stored["metadata"].get("namespace", ""))

    # --- update and patch --------------------------------------------------------------------------------------

    def update(self, request: Request, identity: Identity, target: Target) -> Answer:
        """PUT: the object is replaced; a Lease may be created by it.

        See docs/design/api-rules.md#put-and-resourceversion.
        """
        resource, warnings = target.resource, list[str]()
        sent = decode_body(request, resource, warnings)
        dry_run = is_dry_run(request.parameters("dryRun"))
        meta = {**(sent.get("metadata") or {})}
        if resource.namespaced:
            meta["namespace"] = target.namespace
        wanted = {**sent, "metadata": meta}
        strategy = strategy_of(resource)
        if not strategy.unconditional:
            wanted = strategy.create(wanted)
        if meta.get("name") != target.name:
            raise bad_request(
                f"the name of the object ({meta.get('name', '')}) does not match the name on the URL ({target.name})"
            )
        current = self._storage.find(resource, target.namespace, target.name)
        version = str(meta.get("resourceVersion") or "")
        if current is None and not strategy.unconditional:
            self._authorize(identity, "create", resource, target.namespace)
            _check_uid(target, meta, "")
            meta.pop("resourceVersion", None)
            fresh = {**wanted, "metadata": meta}
            created = self._create(resource, target.namespace, fresh, warnings, dry_run=dry_run)
            return json_response(201, created, (), warnings)
        if not version and not strategy.unconditional:
            cause = Cause.invalid("metadata.resourceVersion", "0", "must be specified for an update")
            raise invalid(resource.plural, target.name, [cause], resource.group)
        current = self._storage.get(resource, target.namespace, target.name)
        stored = self._replace(target, current, wanted, version, dry_run=dry_run)
        return json_response(200, stored, (), warnings)

    def patch(self, request: Request, _identity: Identity, target: Target) -> Answer:
        """PATCH with a merge patch."""
        check_patch_type(request)
        warnings: list[str] = []
        patch = decode_document(request, target.resource)
        dry_run = is_dry_run(request.parameters("dryRun"))
        current = self._storage.get(target.resource, target.namespace, target.name)
        checked = checked_fields(request, target.resource, merge_patch(current, patch), warnings)
        version = str(checked.get("metadata", {}).get("resourceVersion") or "")
        if version == current["metadata"]["resourceVersion"]:
            version = ""
        stored = self._replace(target, current, checked, version, dry_run=dry_run)
        return json_response(200, stored, (), warnings)

    def _replace(
        self,
        target: Target,
        current: Object,
        wanted: Object,
        version: str,
        *,
        dry_run: bool,
    ) -> Object:
        resource = target.resource
        given, kept = wanted.get("metadata") or {}, current["metadata"]
        _check_uid(target, given, str(kept["uid"]))
        if given.get("name", target.name) != target.name:
            cause = Cause.invalid("metadata.name", f'"{given["name"]}"', "field is immutable")
            raise invalid(resource.kind, target.name, [cause], resource.group)
        wanted = strategy_of(resource).update(current, {**wanted, "metadata": {**given, "name": target.name}})

        def change(document: Object) -> None:
            meta = document["metadata"]
            _take(meta, {field: given[field] for field in _FREE_METADATA if given.get(field)}, _FREE_METADATA)
            own = {field: value for field, value in wanted.items() if field not in _HEAD}
            _take(document, own, [field for field in (*document, *own) if field not in _HEAD])
            if resource == PODS and document["spec"] != current["spec"]:
                meta["generation"] = meta.get("generation", 1) + 1

        stored = self._storage.update(resource, target.namespace, target.name, change, version=version, dry_run=dry_run)
        if not dry_run:
            self._collect(stored)
        return stored

    # --- delete ------------------------------------------------------------------------------------------------

    def delete(self, request: Request, _identity: Identity, target: Target) -> Answer:
        """DELETE of one object: a pod is answered with itself, anything else with a Status."""
        resource = target.resource
        options = DeleteOptions(request, resource)
        current = self._storage.get(resource, target.namespace, target.name)
        meta = current["metadata"]
        _check_preconditions(options, resource, target.name, meta)
        if options.dry_run:
            return json_response(200, current if resource == PODS else success(resource, target.name, meta["uid"]))
        return json_response(200, self._delete(resource, current, options))

    def _delete(self, resource: Resource, current: Object, options: DeleteOptions) -> Object:
        meta = current["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        if resource == NODES:
            raise method_not_allowed()
        if resource == PODS:
            grace = options.grace_seconds
            if grace is None:
                grace = int(current["spec"].get("terminationGracePeriodSeconds", 30))
            return self._kubelet.delete(namespace, name, 1 if grace < 0 else grace)
        if resource == NAMESPACES:
            return self._terminate(name)
        left = self._storage.remove(resource, namespace, name)
        if left is not None and "deletionTimestamp" in left["metadata"]:
            return left  # its finalizers keep it, and the answer shows it so
        return success(resource, name, meta["uid"])

    def _terminate(self, name: str) -> Object:
        """Mark a namespace; its content goes first, then the namespace itself."""

        def change(document: Object) -> None:
            document["metadata"].setdefault("deletionTimestamp", now_text(self._clock))
            document["status"]["phase"] = "Terminating"

        marked = self._storage.update(NAMESPACES, "", name, change)
        self._kubelet.tasks.start_soon(self._empty, name, marked["metadata"]["uid"])
        return marked

    async def _empty(self, name: str, uid: str) -> None:
        for resource, document in self._storage.everything(name):
            grace = int((document.get("spec") or {}).get("terminationGracePeriodSeconds", 30))
            if resource == PODS:
                self._kubelet.delete(name, document["metadata"]["name"], grace)
            else:
                self._storage.remove(resource, name, document["metadata"]["name"])
        while self._storage.everything(name):
            await self._storage.changed()
        self._storage.remove(NAMESPACES, "", name, uid=uid)


def _take(document: Object, wanted: Object, fields: Iterable[str]) -> None:
    """Make those fields of a document what they are in `wanted`, absent where they are absent there."""
    for field in fields:
        if field in wanted:
            document[field] = copy.deepcopy(wanted[field])
        else:
            document.pop(field, None)


def _check_uid(target: Target, given: Object, kept: str) -> None:
    """The uid in what is sent is a precondition, also of a PUT that would create: there is none with that uid then."""
    if given.get("uid") and given["uid"] != kept:
        words = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {kept}"
        raise conflict(target.resource, target.name, words)


def _check_preconditions(options: DeleteOptions, resource: Resource, name: str, meta: Object) -> None:
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    check_preconditions_of({"preconditions": preconditions}, resource, name, meta)


def check_preconditions_of(options: Object, resource: Resource, name: str, meta: Object) -> None:
    """409 where the object is not the one, or not as, a DeleteOptions says."""
    preconditions = options.get("preconditions") or {}
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid and uid != meta["uid"]:
        raise conflict(
            resource,
            name,
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    if version and version != meta["resourceVersion"]:
        raise conflict(
            resource,
            name,
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
        )
