"""The writing requests: POST of any resource, PUT of a Lease, PATCH of a Secret, DELETE of one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.admission import admit_pod, check_namespace, priority_of
from senro.devcluster.apiserver.defaults import default_pod, quality_of_service
from senro.devcluster.apiserver.http import Response, json_response
from senro.devcluster.apiserver.patch import check_patch_type, merge_patch
from senro.devcluster.apiserver.request_decoding import (
    DeleteOptions,
    check_fields,
    decode_body,
    decode_object,
    is_dry_run,
)
from senro.devcluster.apiserver.resources import SERVICE_ACCOUNTS
from senro.devcluster.apiserver.status import (
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    Cause,
    bad_request,
    conflict,
    invalid,
    method_not_allowed,
    success,
)
from senro.devcluster.apiserver.strategies import prepare, replace_secret
from senro.devcluster.clock import now_text

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Writer:
    """Answers the writing requests. `authorize` checks a right beyond the request's own verb."""

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
        if target.resource in {NODES, EVENTS}:
            raise method_not_allowed()
        sent = decode_body(request, target.resource)
        dry_run = is_dry_run(request)
        stored = self._create(target.resource, target.namespace, sent, dry_run=dry_run)
        if target.resource == PODS and not dry_run and self._faults.loses_create_answer(stored):
            return Response(0, (), drop=True)
        return json_response(201, stored)

    def _create(self, resource: Resource, namespace: str, sent: Object, *, dry_run: bool = False) -> Object:
        document: Object = {**sent, "metadata": {**(sent.get("metadata") or {})}}
        meta = document["metadata"]
        if not resource.namespaced:
            meta.pop("namespace", None)
        elif meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if meta.get("generateName") and not meta.get("name"):
            raise bad_request("the embedded cluster generates no names: set metadata.name")
        name = meta.get("name", "")
        home = check_namespace(self._storage, resource, namespace, name) if resource.namespaced else {}
        prepared = prepare(resource, document)
        if resource == PODS:
            prepared = self._admit_pod(home, prepared)
        stored = self._storage.create(resource, prepared, dry_run=dry_run)
        if dry_run:
            return stored
        if resource == NAMESPACES:
            self._storage.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": name}})
        if resource == PODS:
            self.created_pods.append(sent)
            self._kubelet.add(stored)
        self._collect(stored)
        return stored

    def _admit_pod(self, namespace: Object, document: Object) -> Object:
        """Returns the pod with its defaults and its first status; 403 if admission refuses it."""
        name = document["metadata"]["name"]
        spec = default_pod(document["spec"], toleration_seconds=self._toleration_seconds)
        spec["priority"], spec["preemptionPolicy"] = priority_of(self._storage, name, spec)
        admit_pod(self._storage, namespace, name, spec)
        status = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        return {"metadata": document["metadata"], "spec": spec, "status": status}

    def _collect(self, stored: Object) -> None:
        """Removes an object that was written with owners none of which exists, as the garbage collector does."""
        if stored["metadata"].get("ownerReferences"):
            self._storage.collect(stored["metadata"].get("namespace", ""))

    # --- update and patch --------------------------------------------------------------------------------------

    def update(self, request: Request, identity: Identity, target: Target) -> Answer:
        """PUT of a Lease: replaces it, or creates it if there is none.

        See docs/design/api-rules.md#put-and-resourceversion.
        """
        if target.resource != LEASES:
            raise method_not_allowed()
        sent = decode_body(request, LEASES)
        meta = {**(sent.get("metadata") or {}), "namespace": target.namespace}
        wanted = prepare(LEASES, {**sent, "metadata": meta})
        if meta.get("name") != target.name:
            raise bad_request(
                f"the name of the object ({meta.get('name', '')}) does not match the name on the URL ({target.name})"
            )
        if self._storage.find(LEASES, target.namespace, target.name) is None:
            self._authorize(identity, "create", LEASES, target.namespace)
            _check_uid(target, meta, "")
            meta.pop("resourceVersion", None)
            return json_response(201, self._create(LEASES, target.namespace, wanted))
        version = str(meta.get("resourceVersion") or "")
        if not version:
            cause = Cause.invalid("metadata.resourceVersion", "0", "must be specified for an update")
            raise invalid(LEASES.plural, target.name, [cause], LEASES.group)
        return json_response(200, self._replace(target, wanted, version))

    def patch(self, request: Request, _identity: Identity, target: Target) -> Answer:
        """PATCH of a Secret with a merge patch."""
        if target.resource != SECRETS:
            raise method_not_allowed()
        check_patch_type(request)
        patch = decode_object(request, SECRETS)
        current = self._storage.get(SECRETS, target.namespace, target.name)
        wanted = replace_secret(current, check_fields(SECRETS, merge_patch(current, patch)))
        version = str((patch.get("metadata") or {}).get("resourceVersion") or "")
        return json_response(200, self._replace(target, wanted, version))

    def _replace(self, target: Target, wanted: Object, version: str) -> Object:
        """Stores what may change of `wanted`; 409 if the stored object has another uid or resourceVersion."""
        given = wanted["metadata"]
        current = self._storage.get(target.resource, target.namespace, target.name)
        _check_uid(target, given, str(current["metadata"]["uid"]))

        def change(document: Object) -> None:
            meta = document["metadata"]
            kept = {field: value for field, value in meta.items() if field not in _FREE_METADATA}
            document["metadata"] = kept | {field: given[field] for field in _FREE_METADATA if given.get(field)}
            for field in document.keys() - _HEAD:
                del document[field]
            document |= {field: value for field, value in wanted.items() if field not in _HEAD}

        stored = self._storage.update(target.resource, target.namespace, target.name, change, version=version)
        self._collect(stored)
        return stored

    # --- delete ------------------------------------------------------------------------------------------------

    def delete(self, request: Request, _identity: Identity, target: Target) -> Answer:
        """DELETE of one object: answered with the pod or namespace itself, or with a Status for anything else."""
        resource = target.resource
        if resource == NODES:
            raise method_not_allowed()
        options = DeleteOptions(request, resource)
        current = self._storage.get(resource, target.namespace, target.name)
        _check_preconditions(options, resource, target.name, current["metadata"])
        return json_response(200, self._delete(resource, current, options))

    def _delete(self, resource: Resource, current: Object, options: DeleteOptions) -> Object:
        meta = current["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        if resource == PODS:
            grace = options.grace_seconds
            if grace is None:
                grace = int(current["spec"].get("terminationGracePeriodSeconds", 30))
            return self._kubelet.delete(namespace, name, 1 if grace < 0 else grace)
        if resource == NAMESPACES:
            return self._terminate(name)
        left = self._storage.remove(resource, namespace, name)
        if left is not None and "deletionTimestamp" in left["metadata"]:
            return left  # its finalizers keep it
        return success(resource, name, meta["uid"])

    def _terminate(self, name: str) -> Object:
        """Marks a namespace as terminating; a task removes its content, then the namespace itself."""

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


def _check_uid(target: Target, given: Object, kept: str) -> None:
    """409 if the object that was sent has another uid than the stored one; `kept` is "" if none is stored."""
    if given.get("uid") and given["uid"] != kept:
        words = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {kept}"
        raise conflict(target.resource, target.name, words)


def _check_preconditions(options: DeleteOptions, resource: Resource, name: str, meta: Object) -> None:
    """409 if the stored object does not have the uid or resourceVersion that the options name."""
    uid, version = options.uid, options.resource_version
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
