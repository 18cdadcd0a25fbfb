"""Where the embedded cluster answers a recorded request otherwise than the real one did: all of it, with the reasons.

Keys are a scenario and the position of its exchange. `DIFFERENCES` holds what always differs, `SOMETIMES` what may:
two processes race there, in the recording as well. What is in neither has to be equal, and what is in `DIFFERENCES`
and equal after all has to be taken out.
"""

from __future__ import annotations

Key = tuple[str, int]

_CGROUPS = (
    "the recorded node counted an unlimited cgroup (v1) as a limit of 9007199254740988Ki in status.resources; this is "
    "no limit, and is not shown"
)
_TOOLS = "the recorded image had busybox; here the host's own tools speak (GNU tar, dd, touch, ls, and its sh)"
_NODE = (
    "the node is this machine: its capacity, kernel, images and ids are its own, and it has no annotations of an "
    "attach-detach controller"
)
_PIPES = "stdout and stderr are two pipes: which of two lines written at once comes first is not decided"
_SCHEDULER = "the read and the scheduler race for the first milliseconds of the pod: 204 until a node is named"
_MOMENT = "the pod is deleted a few milliseconds after its creation: how far its kubelet has come by then is a race"
_TICKS = "how many lines were printed until the pod was deleted is a matter of milliseconds"
_LAST_WORD = (
    "process 1 of the container ends while the exec that released it reports: Success, 137 and no status are all seen "
    "on real clusters (recordings/README.md, design section 4)"
)

_ALWAYS: dict[str, tuple[Key, ...]] = {
    "gitCommit is empty: this is no build of Kubernetes": (("connection", 0),),
    _CGROUPS: (
        ("deadline-exceeded", 8),
        ("evicted-kubelet-trap-zero", 9),
        ("exit-three", 8),
        ("exit-zero", 8),
        ("injected-sidecars", 8),
        ("injected-sidecars", 16),
        ("killed-by-itself", 8),
        ("log-rotation", 6),
        ("logs", 19),
        ("secret-lifecycle", 12),
        ("variable-expansion", 8),
    ),
    _TOOLS: (
        ("evicted-kubelet-trap-zero", 7),
        ("exec-tty", 5),
        ("exec-tty", 6),
        ("exec-tty", 7),
        ("secret-lifecycle", 11),
        ("transfers-broken", 4),
        ("transfers-broken", 5),
        ("transfers-broken", 7),
        ("workspace-round-trip", 10),
    ),
    "senro asks no SelfSubjectRulesReview, so it is not served": (("connection", 8),),
    "senro always offers a subprotocol; a client that offers none is refused": (("exec-basics", 11),),
    _NODE: (("nodes", 0), ("nodes", 1), ("nodes", 3)),
    (
        "a Memory volume is a folder of this machine: its sizeLimit is looked at, as the kubelet looks at others, and "
        "does not stop the write itself"
    ): (("transfers-broken", 6),),
}

_MAY: dict[str, tuple[Key, ...]] = {
    _PIPES: (
        ("exit-zero", 7),
        ("logs", 9),
        ("logs", 12),
        ("logs", 13),
        ("logs", 14),
        ("logs", 18),
        ("oom-child", 7),
    ),
    _SCHEDULER: (("logs", 1),),
    _MOMENT: (("refused", 10),),
    _TICKS: (("logs-interrupted", 5),),
    _LAST_WORD: (("workspace-round-trip", 6),),
    "a pull that fails shows in turn as ErrImagePull and ImagePullBackOff, by a clock that nobody asked": (
        ("injected-sidecars", 24),
    ),
    ("the pod ends at the end of its grace and is removed a moment later: the log is read in between, or after"): (
        ("deleted-ignores-term", 7),
    ),
}

DIFFERENCES = {key: reason for reason, keys in _ALWAYS.items() for key in keys}
SOMETIMES = {key: reason for reason, keys in _MAY.items() for key in keys}
