"""What the apiserver fills in where a pod leaves it out (the POST answers of the recordings)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from senro.devcluster.apiserver.quantities import parse_quantity

if TYPE_CHECKING:
    from senro.devcluster.objects import Object

_ENVIRONMENT_ORDER = (
    "name", "image", "command", "args", "workingDir", "ports", "envFrom", "env", "resources", "resizePolicy",
    "volumeMounts", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext",
)  # fmt: skip


def default_pod(spec: Object, *, toleration_seconds: int = 300) -> Object:
    """The spec with its defaults, in the apiserver's order of fields.

    `toleration_seconds` is how long pods stay on a node that is silent, where they do not say (an apiserver's flags).
    """
    filled: Object = {}
    if volumes := spec.get("volumes"):
        filled["volumes"] = [_default_volume(volume) for volume in volumes]
    if initial := spec.get("initContainers"):
        filled["initContainers"] = [_default_container(container) for container in initial]
    filled["containers"] = [_default_container(container) for container in spec.get("containers") or []]
    filled["restartPolicy"] = spec.get("restartPolicy", "Always")
    filled["terminationGracePeriodSeconds"] = spec.get("terminationGracePeriodSeconds", 30)
    filled["dnsPolicy"] = spec.get("dnsPolicy", "ClusterFirst")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    filled |= {"serviceAccountName": account, "serviceAccount": account, "securityContext": {}}
    filled |= {"schedulerName": "default-scheduler"}
    filled |= {key: value for key, value in spec.items() if key not in filled and value is not None}
    filled["securityContext"] = spec.get("securityContext") or {}
    filled["tolerations"] = [
        *(spec.get("tolerations") or []),
        *_tolerations(spec.get("tolerations") or [], toleration_seconds),
    ]
    filled["priority"] = 0
    filled["enableServiceLinks"] = spec.get("enableServiceLinks", True)
    filled["preemptionPolicy"] = "PreemptLowerPriority"
    return filled


def _tolerations(given: list[Object], seconds: int) -> list[Object]:
    # DefaultTolerationSeconds leaves a key alone that the pod tolerates already.
    known = {(toleration.get("key"), toleration.get("effect")) for toleration in given}
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if (key, "NoExecute") not in known
    ]


def _default_container(container: Object) -> Object:
    image = str(container.get("image") or "")
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    floating = "@" not in image and tag in {"", "latest"}
    filled = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if floating else "IfNotPresent",
        "resources": {},
        **container,
    }
    resources = dict(filled["resources"] or {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    filled["resources"] = resources
    ordered = [key for key in _ENVIRONMENT_ORDER if key in filled]
    return {key: filled[key] for key in [*ordered, *(key for key in filled if key not in ordered)]}


def _default_volume(volume: Object) -> Object:
    for kind in ("secret", "configMap"):
        if kind in volume:
            return {**volume, kind: {**volume[kind], "defaultMode": volume[kind].get("defaultMode", 420)}}
    if set(volume) == {"name"}:
        return {**volume, "emptyDir": {}}
    return volume


def quality_of_service(spec: Object) -> str:
    """The pod's QoS class by its requests and limits of cpu and memory."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    amounts = [container.get("resources") or {} for container in containers]
    if not any(resource.get("limits") or resource.get("requests") for resource in amounts):
        return "BestEffort"
    for resource in amounts:
        limits, requests = resource.get("limits") or {}, resource.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or parse_quantity(limits[name]) != parse_quantity(requests.get(name, limits[name])):
                return "Burstable"
    return "Guaranteed"
