"""PersistentVolumeClaims: bound to folders, protected while they are in use, attached to one node at a time.

There is one class, `standard`, the default: a claim of it, or of none, is bound at once to a volume of its own, which
is a folder that lives as long as the claim does. A claim of another class, or of a volume by name, waits.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from senro.devcluster.apiserver.status import CLAIMS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from senro.devcluster.objects import Object
    from senro.devcluster.storage import Storage

CLASS = "standard"
PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer that keeps a claim until no pod of a node mounts it any more."""
_MANY_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


class Claims:
    """The claims' controllers, and which node each volume is attached to. `folder` holds the volumes."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self._storage = storage
        self._folder = folder
        self._folders: dict[str, Path] = {}
        self._attached: dict[str, dict[str, tuple[str, str]]] = {}
        """By the claim's uid and a pod's: the node, and the pod's name."""
        self._detached = anyio.Event()

    async def run(self) -> None:
        """Bind, release and clear away for ever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_detachments)
            while True:
                seen = self._storage.version
                for claim in self._storage.select(CLAIMS):
                    self.bind(claim)
                    self._release(claim)
                await self._clear_away()
                while self._storage.version == seen:
                    await self._storage.changed()

    async def _follow_detachments(self) -> None:
        """A pod that gives a volume back changes nothing in the API, and its claim may be gone by then."""
        while True:
            detached = self._detached
            await self._clear_away()
            await detached.wait()

    async def _clear_away(self) -> None:
        """Remove the volumes of claims that are gone, once no pod has them any more."""
        living = {str(claim["metadata"]["uid"]) for claim in self._storage.select(CLAIMS)}
        gone = [self._folders.pop(uid) for uid in self._folders.keys() - living - self._attached.keys()]
        for folder in gone:
            await anyio.to_thread.run_sync(_remove_tree, folder)

    def bind(self, claim: Object) -> None:
        """Give a claim that waits for a volume of the class its own; nothing where it waits for another, or has one."""
        meta, spec = claim["metadata"], claim["spec"]
        if claim["status"]["phase"] != "Pending" or spec.get("storageClassName") != CLASS or spec.get("volumeName"):
            return
        path = self._folders[str(meta["uid"])] = self._folder / str(meta["uid"])
        path.mkdir(parents=True)
        path.chmod(0o777)

        def bind(document: Object) -> None:
            document["spec"]["volumeName"] = f"pvc-{meta['uid']}"
            document["status"] = {
                "phase": "Bound",
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            }

        self._storage.update(CLAIMS, meta["namespace"], meta["name"], bind)

    def folder(self, namespace: str) -> Callable[[str], Path | None]:
        """The folder that a bound claim of that namespace has, by its name; None where there is no such claim."""

        def find(name: str) -> Path | None:
            claim = self._storage.find(CLAIMS, namespace, name)
            return None if claim is None else self._folders.get(str(claim["metadata"]["uid"]))

        return find

    def attach(self, pod: Object, node: str) -> str:
        """Attach a pod's volumes to its node, all or none; returns why one of them cannot be, or "".

        A volume that is ReadWriteOnce, or ReadWriteOncePod, is attached to one node at a time. There is nothing to
        attach as long as one of the claims is not there or not bound: the pod waits for it, and asks again.
        """
        claims = [claim for claim in mounted_claims(self._storage, pod) if claim is not None]
        uids = [str(claim["metadata"]["uid"]) for claim in claims]
        if len(claims) != len(claim_names(pod)) or not self._folders.keys() >= set(uids):
            return ""
        for uid, claim in zip(uids, claims, strict=True):
            elsewhere = [name for where, name in self._attached.get(uid, {}).values() if where != node]
            if elsewhere and not _MANY_NODES & set(claim["spec"]["accessModes"]):
                volume = claim["spec"]["volumeName"]
                return (
                    f'Multi-Attach error for volume "{volume}" Volume is already used by pod(s) {", ".join(elsewhere)}'
                )
        for uid in uids:
            self._attached.setdefault(uid, {})[str(pod["metadata"]["uid"])] = (node, pod["metadata"]["name"])
        return ""

    def detach(self, pod_uid: str) -> None:
        """Nothing of that pod runs any more: its node gives its volumes back."""
        for uid, holders in list(self._attached.items()):
            holders.pop(pod_uid, None)
            if not holders:
                del self._attached[uid]
        happened, self._detached = self._detached, anyio.Event()
        happened.set()

    async def detached(self) -> None:
        """Return after the next pod has given its volumes back."""
        await self._detached.wait()

    def _release(self, claim: Object) -> None:
        """Take the protection off a claim that is being deleted, once no pod that has a node mounts it."""
        meta = claim["metadata"]
        if "deletionTimestamp" not in meta or PROTECTION not in (meta.get("finalizers") or []):
            return
        pods = [pod for pod in self._storage.select(PODS, meta["namespace"]) if pod["spec"].get("nodeName")]
        if any(meta["name"] in claim_names(pod) for pod in pods):
            return

        def release(document: Object) -> None:
            left = [name for name in document["metadata"]["finalizers"] if name != PROTECTION]
            document["metadata"]["finalizers"] = left

        self._storage.update(CLAIMS, meta["namespace"], meta["name"], release)


def claim_names(pod: Object) -> list[str]:
    """The claims that a pod mounts, by their names."""
    sources = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or [])
    return [str(source["claimName"]) for source in sources if source]


def mounted_claims(storage: Storage, pod: Object) -> list[Object | None]:
    """The claims themselves, None for one that is not there."""
    return [storage.find(CLAIMS, pod["metadata"]["namespace"], name) for name in claim_names(pod)]


def unready(storage: Storage, pod: Object) -> str:
    """Why a pod's claims keep it from every node, in the scheduler's words; "" where they do not."""
    for name, claim in zip(claim_names(pod), mounted_claims(storage, pod), strict=True):
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if claim["status"]["phase"] != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def _remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
